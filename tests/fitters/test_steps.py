"""Steps that the plan did not know are found, with both sides; what only bends or scatters has none."""

import numpy as np
import pytest

from chunkfit.fitters.fit import fit
from chunkfit.fitters.knots import ladder_for
from chunkfit.fitters.rows import Rows, rows_of
from chunkfit.fitters.steps import find_steps
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.law import draw
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.batch import SCENES

LADDERS = {scene: ladder_for(SYNTHETIC_DOMAIN, scene, ()) for scene in SCENES}
PLANTED = (129, 257, 513)


def cost(points, steps, rise):
    """reference-v1 with other steps: a floor of 8 ms, a bend at 178 tokens, attention."""
    total = points[:, 0] + points[:, 2]
    ladder = np.maximum(8.0, 0.045 * total)
    attention = truth.base_ms(points) - ladder * np.where(total >= 129, 1.08, 1.0)
    return ladder * np.prod([np.where(total >= step, 1 + rise, 1.0) for step in steps or (10**9,)], axis=0) + attention


def rows_with(seed, steps, rise=0.08, points=1000, repeats=3) -> Rows:
    """Points of the law that knows no steps; a node effect of 0.5%, iterations of 1% and a tail."""
    drawn, rng = draw(SYNTHETIC_DOMAIN, points, (), seed).points, np.random.default_rng(seed)
    ids = np.repeat(np.arange(points), repeats)
    latency = (cost(drawn, steps, rise) * np.exp(0.005 * rng.standard_normal(points)))[ids]
    latency *= np.exp(0.01 * rng.standard_normal(len(ids)))
    latency *= np.where(rng.random(len(ids)) < 0.02, 1 + rng.exponential(0.08, len(ids)), 1.0)
    return Rows(drawn[ids], latency, ids, np.zeros(len(ids), dtype=bool))


@pytest.mark.parametrize(("seed", "rise"), [(0, 0.08), (1, 0.08), (2, 0.05), (3, 0.05)])
def test_planted_steps_are_found_with_their_evidence(seed, rise):
    found = find_steps(rows_with(seed, PLANTED, rise), LADDERS, ())
    assert tuple(step.total for step in found) == PLANTED
    for step in found:
        assert step.below < step.total <= step.above
        assert step.rise == pytest.approx(rise, abs=0.015)
        assert min(step.points) >= 8
        assert min(step.rows) >= 3 * 8


@pytest.mark.parametrize("seed", range(6))
def test_a_bend_and_noise_hold_no_step(seed):
    assert find_steps(rows_with(seed, ()), LADDERS, ()) == []


def test_a_known_step_is_not_found_again():
    known = {scene: ladder_for(SYNTHETIC_DOMAIN, scene, (129,)) for scene in SCENES}
    rows = rows_of(synthetic_profile(0), "fit")
    assert find_steps(rows, known, (129,)) == []
    assert [step.total for step in find_steps(rows, LADDERS, ())] == [129]


def test_too_few_rows_hold_no_step():
    assert find_steps(rows_with(0, PLANTED, points=30), LADDERS, ()) == []


def test_a_found_step_stands_in_the_ladder_and_in_the_options():
    """A profile whose plan announced nothing: the table is as sharp at 129 as one that was told."""
    profile = synthetic_profile(0, fit_points=600, calibrate_points=320, test_points=200)
    quiet = type(profile)(profile.meta.model_copy(update={"step_totals": ()}), profile.columns)
    table = fit(quiet)
    assert [step["total"] for step in table.document.fitter.options["steps_found"]] == [129]
    assert table.document.fitter.options["step_totals"] == [129]
    assert {128, 129} <= set(table.arrays.ladders[SCENES[2]].batch_tokens)
    low, high = table.read(np.array([[8, 500, 120, 0], [8, 500, 121, 0]]))[0]
    assert high - low == pytest.approx(0.08 * 8, rel=0.3)


@pytest.mark.slow
def test_thirty_seeds_of_steps_and_of_none():
    wrong = {seed: [step.total for step in find_steps(rows_with(seed, ()), LADDERS, ())] for seed in range(30)}
    assert sum(map(len, wrong.values())) <= 1, wrong
    found = {seed: {s.total for s in find_steps(rows_with(seed, PLANTED), LADDERS, ())} for seed in range(30)}
    assert all(set(PLANTED) <= steps for steps in found.values()), found
    assert sum(len(steps - set(PLANTED)) for steps in found.values()) <= 2, found
