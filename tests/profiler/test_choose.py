"""Rounds: points go where the held-out error is, never to a held-out batch, until the tolerance or the points end."""

import numpy as np
import pytest

from chunkfit.files.errors import DeviceMemoryError
from chunkfit.profiler.choose import (
    CELL_SHARE,
    FLAT,
    CellErrors,
    cell_errors,
    cell_weights,
    choose,
    fresh_points,
    next_choice,
)
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.plan import PlanOptions, draw_plan
from chunkfit.profiler.rounds import CHOICE_S, ROUND_AT_LEAST, round_points, rounds_to_come, start_points
from chunkfit.profiler.traffic import Cells, read_traffic
from chunkfit.tables.batch import Scene
from chunkfit.tables.grid import scene_of

CELLS = Cells(SYNTHETIC_DOMAIN)
FRESH = fresh_points(CELLS, (129,), np.random.default_rng(0))
LAW = cell_weights(CELLS, FRESH, None)
PLAN = draw_plan(
    SYNTHETIC_DOMAIN, (129,), 0, PlanOptions(fit_points=300, calibrate_points=60, test_points=60, tolerance=0.01)
)
START = [point for point in PLAN.fit if point.role == "point"]
POINTS = np.asarray([point.point for point in START])


def blind_to_long_contexts(points, latency_ms, queries):
    """Knows the truth but for decodes of more than 2,400 tokens, which take it half as long again."""
    ms = truth.base_ms(queries)
    return np.where((queries[:, 2] == 0) & (queries[:, 1] > 2400), 1.5 * ms, ms)


def knows_all(points, latency_ms, queries):
    return truth.base_ms(queries)


def measured(points):
    return truth.base_ms(points)


def test_a_cells_error_is_that_of_points_left_out():
    seen = []

    def spy(points, latency_ms, queries):
        seen.append((set(map(tuple, points.tolist())), queries))
        assert latency_ms.tolist() == measured(points).tolist()
        return blind_to_long_contexts(points, latency_ms, queries)

    errors = cell_errors(CELLS, LAW, POINTS, measured(POINTS), spy, FRESH)
    asked = [set(map(tuple, queries[: len(queries) - len(FRESH)].tolist())) for _, queries in seen]
    assert all(not fitted & held for (fitted, _), held in zip(seen, asked, strict=True))
    assert set.union(*asked) == set(map(tuple, POINTS.tolist()))
    worst = CELLS.title(errors.worst())
    assert worst.startswith("decode")
    assert worst.endswith("k 2353-8192")
    decode = slice(0, CELLS.first[Scene.PREFILL])
    assert errors.error[decode].max() > 0.1
    assert errors.error[CELLS.first[Scene.PREFILL] :].max() == pytest.approx(0, abs=1e-9)
    assert errors.weight.sum() == pytest.approx(1)
    assert errors.bracket[errors.weight > 0].min() == FLAT
    assert errors.points.sum() == len(POINTS)


def test_one_stall_moves_nothing():
    latency_ms = measured(POINTS) * np.exp(0.01 * np.random.default_rng(0).normal(size=len(POINTS)))
    before = cell_errors(CELLS, LAW, POINTS, latency_ms, knows_all, FRESH)
    latency_ms[10] *= 50
    after = cell_errors(CELLS, LAW, POINTS, latency_ms, knows_all, FRESH)
    assert after.error.max() < before.error.max() + 0.02


def test_most_points_go_to_what_is_not_known_and_none_is_held_out():
    choice = next_choice(PLAN, [], POINTS, measured(POINTS), blind_to_long_contexts)
    points = [point.point for point in choice.points]
    assert len(points) == len(set(points)) == round_points(100, 200) == 33
    # A cell takes three of these 33 at most, and the unknown is five cells wide.
    long = [n for n, k, c, u in points if c == 0 and k > 2400]
    assert len(long) >= 10
    assert not set(points) & {point.point for s in ("fit", "calibrate", "test") for point in PLAN.points(s)}
    ids = [point.point_id for point in choice.points]
    assert PLAN.rounds is not None
    assert ids == list(range(PLAN.rounds.first_id, PLAN.rounds.first_id + 33))
    assert PLAN.rounds.first_id > max(point.point_id for s in ("fit", "calibrate", "test") for point in PLAN.points(s))
    assert {point.repeats for point in choice.points} == {3}
    assert (choice.round, choice.measured, choice.stopped) == (1, 100, None)
    assert "33 more" in choice.title()
    again = next_choice(PLAN, [], POINTS, measured(POINTS), blind_to_long_contexts)
    assert again == choice
    second = next_choice(PLAN, [choice], POINTS, measured(POINTS), blind_to_long_contexts)
    assert second.round == 2
    assert not {point.point for point in second.points} & set(points)
    assert second.points[0].point_id == ids[-1] + 1


def test_rounds_stop_at_the_tolerance():
    choice = next_choice(PLAN, [], POINTS, measured(POINTS), knows_all)
    assert (choice.points, choice.stopped) == ((), "tolerance")
    assert "under the tolerance" in choice.title()
    strict = PLAN.model_copy(update={"rounds": PLAN.rounds.model_copy(update={"tolerance": 0.0})})
    assert next_choice(strict, [], POINTS, measured(POINTS), knows_all).stopped is None, "0 is never reached"


def test_rounds_stop_when_the_points_are_spent():
    made, sizes = [], []
    while not (made and made[-1].stopped):
        made.append(next_choice(PLAN, made, POINTS, measured(POINTS), blind_to_long_contexts))
        sizes.append(len(made[-1].points))
    assert (sum(sizes), made[-1].stopped) == (200, "points")
    assert len({point.point for choice in made for point in choice.points}) == 200
    assert "all points are spent" in made[-1].title()


def test_the_traffic_moves_the_points(tmp_path):
    path = tmp_path / "traffic.csv"
    path.write_text("n,k,c,u,weight\n2,100,0,0,1\n")
    plan = PLAN.model_copy(update={"traffic": read_traffic(path, SYNTHETIC_DOMAIN)})
    weight = cell_weights(CELLS, FRESH, plan.traffic)
    assert weight.sum() == pytest.approx(1)
    assert weight[LAW > 0].min() > 0, "no cell is left blind"

    def off_everywhere(points, latency_ms, queries):
        return 1.1 * truth.base_ms(queries)

    def in_its_cell(choice):
        return sum(
            CELLS.title(cell) == "decode n 1-2 k 56-194"
            for cell in CELLS.of(np.asarray([p.point for p in choice.points]))
        )

    with_traffic = next_choice(plan, [], POINTS, measured(POINTS), off_everywhere)
    without = next_choice(PLAN, [], POINTS, measured(POINTS), off_everywhere)
    assert in_its_cell(with_traffic) == 1 + round(CELL_SHARE * 33) > in_its_cell(without)


def test_points_are_dealt_by_error_bracket_and_what_is_there():
    flat = CellErrors(np.full(CELLS.count, 0.01), np.full(CELLS.count, 0.1), np.zeros(CELLS.count), LAW)
    even = choose(CELLS, flat, FRESH, 200, set())
    assert len(set(even)) == 200
    full = np.zeros(CELLS.count)
    full[: CELLS.first[Scene.PREFILL]] = 1000
    elsewhere = choose(CELLS, CellErrors(flat.error, flat.bracket, full, LAW), FRESH, 200, set())
    assert not (scene_of(np.asarray(elsewhere)) == "decode").any()
    assert (scene_of(np.asarray(even)) == "decode").any()
    assert not set(choose(CELLS, flat, FRESH, 50, set(even))) & set(even)
    assert len(choose(CELLS, flat, FRESH[:30], 50, set())) <= 30, "fewer where the candidates end"


def test_nothing_to_choose_by_is_said():
    with pytest.raises(DeviceMemoryError, match=r"12 points could be measured; expected at least 20"):
        next_choice(PLAN, [], POINTS[:12], measured(POINTS[:12]), knows_all)


def test_a_scene_without_points_is_as_uncertain_as_all():
    left = POINTS[scene_of(POINTS) != "mixed"]
    errors = cell_errors(CELLS, LAW, left, 1.1 * measured(left), knows_all, FRESH)
    assert errors.error == pytest.approx(np.full(CELLS.count, 0.1))


def test_sizes_of_rounds():
    assert [start_points(n) for n in (10, 60, 90, 300, 1000)] == [10, 60, 60, 100, 333]
    assert round_points(90, 1000) == 30
    assert round_points(9, 1000) == ROUND_AT_LEAST
    assert round_points(90, 39) == 39, "a small rest goes with the last"
    assert round_points(90, 0) == 0
    assert rounds_to_come(333, 667) == 5
    assert rounds_to_come(333, 0) == 1
    assert CHOICE_S > 0
