"""The local noise scale: from the errors of other points alone, large where they are, and a bound in order by it."""

from dataclasses import replace

import numpy as np
import pytest

from chunkfit.files.errors import FitError
from chunkfit.fitters.build import build_chosen, ladders_of
from chunkfit.fitters.cross_validation import OutOfFold, in_box, out_of_fold
from chunkfit.fitters.estimators.estimator import SceneModel
from chunkfit.fitters.noise import (
    SMALLEST_ERROR,
    ExpectedNodes,
    LocalNoise,
    Proportional,
    choose_noise,
    refitted,
    split_scale,
)
from chunkfit.fitters.rows import Rows
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
    return {scene: SceneModel(Line(), {}) for scene in ladders}


def certain(points):
    return np.zeros(len(points))


def predicted(rows: Rows, uncertainty=certain) -> OutOfFold:
    expected = Line().total_ms(rows.points)
    none, all_ = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
    return OutOfFold(rows, none, expected, uncertainty(rows.points), all_)


def own_difficulty(rows: Rows, uncertainty=certain):
    """At each row, relative to its expected time."""
    errors = predicted(rows, uncertainty)
    return LocalNoise.fit(errors).at_rows(errors) / errors.expected_ms


def test_it_is_large_where_errors_are_and_has_their_size():
    noise = LocalNoise.fit(predicted(decodes(4000)))
    calm, rough = noise.at(np.asarray([[4, 64, 0, 0], [160, 64, 0, 0]]), np.zeros(2))
    assert calm < 0.06
    assert rough == pytest.approx(0.2 * 1.645, rel=0.35)  # the 0.9 quantile of |normal|


def test_a_points_own_error_has_no_part_in_what_it_is_scored_by():
    rows = decodes(500)
    before = own_difficulty(rows)
    rows.latency_ms[17] *= 50
    after = own_difficulty(rows)
    assert after[17] == pytest.approx(before[17], rel=0.02)  # it moves the quantile over all
    assert (after >= before - 1e-12)[np.arange(500) != 17].all()


def test_uncertainty_of_the_estimator_widens_it_where_it_errs_by_it():
    """Noise is 2% everywhere; from 64 decodes on the estimator is uncertain by 20% and errs by as much."""
    rows = decodes(2000, noise_from=1000)
    off = rows.points[:, 0] >= 64

    def uncertain(points):
        return np.where(points[:, 0] >= 64, 0.2, 0.0)

    rows.latency_ms[off] *= 1.2
    noise, own = LocalNoise.fit(predicted(rows, uncertain)), own_difficulty(rows, uncertain)
    # In the middle of the known points, a gap that it is uncertain about: no held-out point shows it.
    known, gap = noise.at(np.asarray([[8, 64, 0, 0], [8, 64, 0, 0]]), np.asarray([0.0, 0.2]))
    assert gap == pytest.approx(3 * known)
    assert own[off].min() > 3 * np.median(own[~off])


def test_repeats_are_one_point_and_exact_times_have_the_smallest():
    rows = decodes(200)
    twice = Rows(*(np.concatenate([a, a]) for a in (rows.points, rows.latency_ms, rows.point_id, rows.flagged)))
    once, both = LocalNoise.fit(predicted(rows)), LocalNoise.fit(predicted(twice))
    np.testing.assert_allclose(both.errors, once.errors)
    own = own_difficulty(rows)
    np.testing.assert_allclose(own_difficulty(twice), np.concatenate([own, own]))
    exact = Rows(rows.points, Line().total_ms(rows.points), rows.point_id, rows.flagged)
    assert LocalNoise.fit(predicted(exact)).at(rows.points, np.zeros(200)) == pytest.approx(SMALLEST_ERROR)


def test_a_point_alone_has_its_own_error():
    rows = decodes(1)
    assert own_difficulty(rows) == pytest.approx(0.1 * LocalNoise.fit(predicted(rows)).errors)


def test_each_row_is_left_out_once_and_outermost_batches_are_told():
    rows = decodes(100)
    seen = []

    def watching(known, ladders):
        seen.append(set(known.point_id.tolist()))
        return truth(known, ladders)

    errors = out_of_fold(watching, rows, {Scene.DECODE: None})
    assert len(errors.rows) == 100
    for fold, known in enumerate(seen):
        assert not known & set(errors.rows.point_id[errors.fold == fold].tolist())
    assert not errors.interpolated[np.argmax(rows.points[:, 0])]
    assert errors.interpolated.mean() > 0.9
    assert errors.inside().interpolated.all()
    prefill = np.asarray([[0, 0, 5, 0]])
    assert not in_box(rows, prefill).any()


def test_ladder_and_base_add_up_to_the_scale_of_their_sum():
    rng = np.random.default_rng(0)
    difficulty, at_nodes, base = rng.uniform(0.1, 0.5, 12), rng.uniform(1, 9, 12), rng.uniform(0, 5, 12)
    nodes = ExpectedNodes(np.zeros((12, 4), dtype=np.int64), np.asarray([1.0, 9.0]), base, at_nodes, base > 0)
    ladder, of_base = split_scale(difficulty, nodes)
    np.testing.assert_allclose(ladder, difficulty.min() * np.asarray([1.0, 9.0]))
    np.testing.assert_allclose(difficulty.min() * at_nodes + of_base, difficulty * (at_nodes + base))
    assert (of_base >= 0).all()


def test_the_shape_with_the_smaller_loss_is_chosen_and_ties_go_to_the_simpler():
    """Noise that grows at 24 decodes needs a local scale; even noise does not."""
    folds = np.arange(2000) % 4
    uneven = replace(predicted(decodes(2000, noise_from=24)), fold=folds)
    noise, losses = choose_noise(uneven)
    assert isinstance(noise, LocalNoise)
    assert losses["local"] < 0.98 * losses["proportional"]
    noise, losses = choose_noise(replace(predicted(decodes(2000, noise_from=1000)), fold=folds))
    assert isinstance(noise, Proportional)


def test_a_stored_name_gives_the_shape_again_and_an_unknown_one_is_refused():
    assert refitted("proportional", lambda: pytest.fail("nothing is fitted")) == Proportional()
    errors = predicted(decodes(200))
    np.testing.assert_array_equal(refitted("local", lambda: errors).errors, LocalNoise.fit(errors).errors)
    with pytest.raises(FitError, match="'tail' is unknown; expected one of proportional, local"):
        refitted("tail", lambda: errors)


def test_a_bound_follows_it_and_closing_adds_little():
    """A noisy region in the middle of n: a bound of that shape would fall past it."""
    rows = decodes(4000, noise_from=24)
    calm_again = rows.points[:, 0] >= 64
    rows.latency_ms[calm_again] = Line().total_ms(rows.points[calm_again])
    ratios, at = {}, np.asarray([[4, 64, 0, 0], [40, 64, 0, 0], [240, 64, 0, 0]])
    for scale in ("proportional", "local"):
        noise = refitted(scale, lambda: out_of_fold(truth, rows, ladders_of(rows, DOMAIN, ())))
        built = build_chosen(rows, DOMAIN, (), truth, noise)
        expected, of_scale = built.expected_and_scale(rows.points)
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
    assert ratios["local"] - 1 < 0.6 * (ratios["proportional"] - 1)
