"""Plans: the same for the same seed, disjoint where they must be, fair in every prefix."""

from collections import Counter

import pytest

from chunkfit.engine.config import PRESETS
from chunkfit.files.errors import UsageError
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN, cuda_domain, default_step_totals
from chunkfit.profiler.plan import SESSIONS, PlanOptions, PlanPoint, SweepPlan, draw_plan, sentinel_point
from chunkfit.profiler.sampling import corners, inside, scene_of
from chunkfit.profiler.timing import side_by_side, with_sentinels
from chunkfit.tables.batch import Batch, Scene
from chunkfit.tables.domain import Domain


@pytest.fixture(scope="module")
def plan():
    return draw_plan(SYNTHETIC_DOMAIN, (129,), 7, PlanOptions(fit_points=300, calibrate_points=200, test_points=150))


def test_counts_repeats_and_ids(plan):
    assert Counter(point.role for point in plan.fit) == {"point": 300, "anchor": 48, "unequal": 64, "chunks": 64}
    assert (len(plan.calibrate), len(plan.test)) == (200, 150)
    assert {point.repeats for point in plan.fit if point.role in ("point", "anchor")} == {3}
    assert {point.repeats for point in (*plan.calibrate, *plan.test)} == {1}
    ids = [p.point_id for session in SESSIONS for p in plan.points(session) if p.role != "anchor"]
    assert len(ids) == len(set(ids)) == 650 + 128
    assert plan.sentinel.point_id not in ids


def test_no_fit_point_is_held_out(plan):
    fit = {point.point for point in plan.fit if point.role == "point"}
    assert len(fit) == 300
    assert not fit & {point.point for point in (*plan.calibrate, *plan.test)}


def test_anchors_are_calibrate_points_of_all_scenes(plan):
    calibrate = {point.point_id: point.point for point in plan.calibrate}
    anchors = [point for point in plan.fit if point.role == "anchor"]
    assert all(calibrate[anchor.point_id] == anchor.point for anchor in anchors)
    places = [place for place, point in enumerate(plan.fit) if point.role == "anchor"]
    assert places[-1] < len(anchors) + 128 + 100, "a session cut short after a third still has every anchor"
    assert places[0] < 40 < places[24], "and they are spread over that third"
    assert Counter(anchor.scene.value for anchor in anchors) == {"decode": 16, "prefill": 16, "mixed": 16}


def test_pairs_are_neighbours_of_equal_totals(plan):
    paired = [(place, point) for place, point in enumerate(plan.fit) if point.role in ("unequal", "chunks")]
    first_with_layout = 0
    for (place, one), (next_place, other) in zip(paired[::2], paired[1::2], strict=True):
        assert next_place == place + 1
        assert (one.role, one.point, one.repeats) == (other.role, other.point, 5)
        usual, spread = sorted((one, other), key=lambda point: point.layout)
        assert usual.batch() == Batch.of(*usual.point)
        assert spread.batch().point() == spread.point
        assert (len(spread.batch().chunks) > 1) == (spread.role == "chunks")
        first_with_layout += bool(one.layout)
    assert 20 < first_with_layout < 44, "either may go first"
    assert paired[-1][0] < 48 + 128 + 100
    assert paired[-1][0] - paired[0][0] > 200, "spread over the first third"


def test_pairs_leave_the_other_points_alone(plan):
    without = draw_plan(
        SYNTHETIC_DOMAIN, (129,), 7, PlanOptions(fit_points=300, calibrate_points=200, test_points=150, pairs=0)
    )
    assert {p for p in plan.fit if p.role in ("point", "anchor")} == set(without.fit)
    assert without.calibrate == plan.calibrate


def test_a_point_states_its_own_totals():
    whole = {"point_id": 0, "role": "unequal", "scene": "decode", "n": 2, "k": 8, "c": 0, "u": 0, "repeats": 1}
    assert PlanPoint(**whole, layout="15,1|").batch().decode_contexts == (15, 1)
    with pytest.raises(ValueError, match=r"layout '14,1\|' is not of n 2, k 8"):
        PlanPoint(**whole, layout="14,1|")


def test_corners_and_both_sides_of_the_step_are_fitted(plan):
    fit = {point.point for point in plan.fit}
    held_out = {point.point for point in (*plan.calibrate, *plan.test)}
    assert len(set(corners(SYNTHETIC_DOMAIN)) & fit) >= 16
    assert set(corners(SYNTHETIC_DOMAIN)) <= fit | held_out
    totals = Counter(n + c for n, _, c, _ in fit if n and c)
    assert totals[128] >= 4
    assert totals[129] >= 4


def test_many_steps_leave_the_law_its_points():
    """Of a GPU's graphs: both sides of every step are fitted, by a quarter of the points at most."""
    steps = default_step_totals("cuda")
    domain = cuda_domain(PRESETS["llama-3-8b"], 139 << 30)
    plan = draw_plan(domain, steps, 3)
    sides = {side for total in steps for side in (total - 1, total)}
    reached = {(scene_of(p.point), p.n + p.c) for p in plan.fit if p.role == "point"}
    for scene, most in ((Scene.DECODE, 256), (Scene.PREFILL, 8192), (Scene.MIXED, 8448)):
        wanted = {(scene, side) for side in sides if (scene is Scene.MIXED) < side <= most}
        assert len(wanted - reached) <= 1, "a corner or a held-out point may have taken its place"
    many = draw_plan(domain, steps, 3, PlanOptions(fit_points=200, calibrate_points=200, test_points=200))
    for drawn in (plan, many):
        at_steps = sum(p.n + p.c in sides for p in drawn.fit if p.role == "point")
        by_law = sum(p.n + p.c in sides for p in drawn.test)  # small totals are all beside a step
        assert at_steps <= by_law + 0.25 * len(drawn.test)


def test_the_seed_decides_everything(plan):
    same = draw_plan(SYNTHETIC_DOMAIN, (129,), 7, PlanOptions(fit_points=300, calibrate_points=200, test_points=150))
    other = draw_plan(SYNTHETIC_DOMAIN, (129,), 8, PlanOptions(fit_points=300, calibrate_points=200, test_points=150))
    assert same == plan
    assert same.sha256() == plan.sha256() != other.sha256()
    assert SweepPlan.model_validate_json(plan.model_dump_json()).sha256() == plan.sha256()


def test_a_prefix_of_the_fit_session_is_a_fair_sample():
    plan = draw_plan(SYNTHETIC_DOMAIN, (129,), 0)
    prefix = [point for point in plan.fit[:470] if point.role in ("point", "anchor")]
    assert len(prefix) == pytest.approx(350, abs=10)
    shares = Counter(point.scene.value for point in prefix)
    assert all(90 <= count <= 145 for count in shares.values())
    special = set(corners(SYNTHETIC_DOMAIN))
    assert len([p for p in prefix if p.point in special]) < len(special) * 0.7


def test_the_sentinel_opens_closes_and_returns(plan):
    roles = [point.role for point in with_sentinels(plan, plan.test[:45])]
    assert [place for place, role in enumerate(roles) if role == "sentinel"] == [0, 21, 42, 48]


def test_a_pair_is_measured_at_once_and_no_sentinel_comes_between(plan):
    schedule = with_sentinels(plan, plan.fit)
    groups = side_by_side(schedule)
    assert [point for group in groups for point in group] == schedule
    pairs = [group for group in groups if len(group) > 1]
    assert len(pairs) == 64
    assert all(len(pair) == 2 and pair[0].twin_of(pair[1]) for pair in pairs)
    assert {point.role for group in groups if len(group) == 1 for point in group} == {"point", "anchor", "sentinel"}
    half = [point for point in plan.fit if point != pairs[0][1]]
    assert (pairs[0][0],) in side_by_side(half)


def test_the_sentinel_fits_a_crowded_domain():
    crowded = Domain(
        max_decodes=64,
        max_context_tokens=4096,
        max_chunk_tokens=512,
        max_prefix_tokens=0,
        max_batch_tokens=16,
        kv_tokens=64,
        context_length=4096,
    )
    import numpy as np

    assert inside(crowded, np.asarray([sentinel_point(crowded)]))[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fit_points": 0}, "fit_points is 0"),
        ({"test_points": -1}, "test_points is -1"),
        ({"fit_repeats": 0}, "fit_repeats is 0"),
    ],
)
def test_impossible_counts_are_refused(change, message):
    with pytest.raises(UsageError, match=message):
        draw_plan(SYNTHETIC_DOMAIN, (), 0, PlanOptions(**change))


def test_a_negative_seed_is_refused():
    with pytest.raises(UsageError, match="seed is -1"):
        draw_plan(SYNTHETIC_DOMAIN, (), -1)


def test_a_point_states_its_own_scene():
    with pytest.raises(ValueError, match="scene decode for n 2, c 8"):
        PlanPoint(point_id=0, role="point", scene="decode", n=2, k=8, c=8, u=0, repeats=1)
