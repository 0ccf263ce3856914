"""The spread is read from errors of other points alone, is large where they are, and closes to an ordered bound."""

import numpy as np
import pytest

from chunkfit.fitters.build import build_chosen
from chunkfit.fitters.estimators.estimator import Lift, SceneModel
from chunkfit.fitters.folds import between
from chunkfit.fitters.left_out import LeftOut, left_out
from chunkfit.fitters.rows import Rows
from chunkfit.fitters.scale import spread_parts
from chunkfit.fitters.spread import SMALLEST, fit_spread
from chunkfit.tables.batch import Scene
from chunkfit.tables.domain import Domain

DOMAIN = Domain(
    max_decodes=256,
    max_context_tokens=1024,
    max_chunk_tokens=1,
    max_prefix_tokens=0,
    max_batch_tokens=256,
    kv_tokens=256 * 1024,
    context_length=1024,
)


def decodes(count: int, noise_from: int = 64) -> Rows:
    """1 + 0.02 n ms of random n and k, with 20% of noise from `noise_from` decodes on and 1% below."""
    rng = np.random.default_rng(1)
    n, k = (np.exp(rng.uniform(0, np.log(end), count)).astype(np.int64) + 1 for end in (255, 1023))
    points = np.column_stack([n, k, np.zeros_like(n), np.zeros_like(n)])
    noise = np.where(n >= noise_from, 0.2, 0.01) * rng.normal(size=count)
    return Rows(points, (1 + 0.02 * n) * np.exp(noise), np.arange(count), np.zeros(count, dtype=np.bool_))


class Line:
    def total_ms(self, points):
        return 1 + 0.02 * points[:, 0]


def truth(rows, ladders):
    return {scene: SceneModel(Line(), Lift(0.0, 1.05), {}) for scene in ladders}


def no_doubt(points):
    return np.zeros(len(points))


def as_left_out(rows: Rows, doubt=no_doubt) -> LeftOut:
    expected = Line().total_ms(rows.points)
    none, all_ = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
    return LeftOut(rows, none, expected, expected, doubt(rows.points), all_)


def test_it_is_large_where_errors_are_and_has_their_size():
    spread, _ = fit_spread(as_left_out(decodes(4000)))
    calm, rough = spread.at(np.asarray([[4, 64, 0, 0], [160, 64, 0, 0]]), np.zeros(2))
    assert calm < 0.06
    assert rough == pytest.approx(0.2 * 1.645, rel=0.35)  # the 0.9 quantile of |normal|


def test_a_points_own_error_has_no_part_in_what_it_is_scored_by():
    rows = decodes(500)
    _, before = fit_spread(as_left_out(rows))
    rows.latency_ms[17] *= 50
    _, after = fit_spread(as_left_out(rows))
    assert after[17] == pytest.approx(before[17], rel=0.02)  # it moves the quantile over all
    assert (after >= before - 1e-12)[np.arange(500) != 17].all()


def test_doubt_of_the_estimator_widens_it_where_it_errs_by_it():
    """Noise is 2% everywhere; from 64 decodes on the estimator doubts its answers and errs by 20%."""
    rows = decodes(2000, noise_from=1000)
    off = rows.points[:, 0] >= 64

    def doubting(points):
        return np.where(points[:, 0] >= 64, 0.2, 0.0)

    rows.latency_ms[off] *= 1.2
    left = as_left_out(rows, doubting)
    spread, own = fit_spread(left)
    # In the middle of what it knows, a gap that it doubts: no left-out point says so.
    known, gap = spread.at(np.asarray([[8, 64, 0, 0], [8, 64, 0, 0]]), np.asarray([0.0, 0.2]))
    assert gap == pytest.approx(3 * known)
    assert own[off].min() > 3 * np.median(own[~off])


def test_repeats_are_one_point_and_exact_times_have_the_smallest():
    rows = decodes(200)
    twice = Rows(*(np.concatenate([a, a]) for a in (rows.points, rows.latency_ms, rows.point_id, rows.flagged)))
    (once, own), (both, own_twice) = fit_spread(as_left_out(rows)), fit_spread(as_left_out(twice))
    np.testing.assert_allclose(both.sizes, once.sizes)
    np.testing.assert_allclose(own_twice, np.concatenate([own, own]))
    exact = Rows(rows.points, Line().total_ms(rows.points), rows.point_id, rows.flagged)
    assert fit_spread(as_left_out(exact))[0].at(rows.points, np.zeros(200)) == pytest.approx(SMALLEST)


def test_a_point_alone_has_its_own_error():
    spread, own = fit_spread(as_left_out(decodes(1)))
    assert own == pytest.approx(0.1 * spread.sizes)


def test_each_row_is_left_out_once_and_outermost_batches_are_told():
    rows = decodes(100)
    seen = []

    def watching(known, ladders):
        seen.append(set(known.point_id.tolist()))
        return truth(known, ladders)

    left = left_out(watching, rows, {Scene.DECODE: None})
    assert len(left.rows) == 100
    for fold, known in enumerate(seen):
        assert not known & set(left.rows.point_id[left.fold == fold].tolist())
    assert not left.between[np.argmax(rows.points[:, 0])]
    assert left.between.mean() > 0.9
    prefill = np.asarray([[0, 0, 5, 0]])
    assert not between(rows, prefill).any()


def test_parts_add_up_to_the_spread_of_the_sum():
    rng = np.random.default_rng(0)
    spread, at_nodes, base = rng.uniform(0.1, 0.5, 12), rng.uniform(1, 9, 12), rng.uniform(0, 5, 12)
    ladder, of_base = spread_parts(spread, np.asarray([1.0, 9.0]), at_nodes, base)
    np.testing.assert_allclose(ladder, spread.min() * np.asarray([1.0, 9.0]))
    np.testing.assert_allclose(spread.min() * at_nodes + of_base, spread * (at_nodes + base))
    assert (of_base >= 0).all()


def test_a_bound_follows_it_and_closing_adds_little():
    """A noisy region in the middle of n: a bound of that shape would fall past it."""
    rows = decodes(4000, noise_from=24)
    calm_again = rows.points[:, 0] >= 64
    rows.latency_ms[calm_again] = Line().total_ms(rows.points[calm_again])
    ratios, at = {}, np.asarray([[4, 64, 0, 0], [40, 64, 0, 0], [240, 64, 0, 0]])
    for scale in ("proportional", "spread"):
        built = build_chosen(rows, DOMAIN, (), truth, scale)
        expected, of_scale = built.unbounded().read(rows.points)
        multiplier = np.quantile((rows.latency_ms - expected) / of_scale, 0.99)
        unclosed = built.unclosed({Scene.DECODE: multiplier}, 1.0)
        table = built.closed(unclosed)
        bound = table.read(rows.points)[1]
        assert (rows.latency_ms <= bound).mean() >= 0.99
        assert (bound / built.raw(unclosed).read(rows.points)[1] - 1).mean() < 0.02
        ratios[scale] = (bound / rows.latency_ms).mean()
        expected, bound = table.read(at)
        calm, rough, calm_after = bound / expected
    assert calm < 1.1
    assert calm_after < 1.2
    assert rough > 1.25
    assert ratios["spread"] - 1 < 0.6 * (ratios["proportional"] - 1)
