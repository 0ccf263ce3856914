"""Steps that the plan did not know are found, with both sides; what only bends or scatters has none."""

import numpy as np
import pytest
from support.fitting import fit
from support.stepped import PLANTED, stepped_rows

from chunkfit.fitters.knots import ladder_for
from chunkfit.fitters.rows import rows_of
from chunkfit.fitters.steps import find_steps
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.batch import SCENES

LADDERS = {scene: ladder_for(SYNTHETIC_DOMAIN, scene, ()) for scene in SCENES}


@pytest.mark.parametrize(("seed", "rise"), [(0, 0.08), (1, 0.08), (2, 0.05), (3, 0.05)])
def test_planted_steps_are_found_with_their_evidence(seed, rise):
    found = find_steps(stepped_rows(seed, PLANTED, rise), LADDERS, ())
    assert tuple(step.total for step in found) == PLANTED
    for step in found:
        assert step.below < step.total <= step.above
        assert step.rise == pytest.approx(rise, abs=0.015)
        assert min(step.points) >= 8
        assert min(step.rows) >= 3 * 8


@pytest.mark.parametrize("seed", range(6))
def test_a_bend_and_noise_hold_no_step(seed):
    assert find_steps(stepped_rows(seed, ()), LADDERS, ()) == []


def test_a_known_step_is_not_found_again():
    known = {scene: ladder_for(SYNTHETIC_DOMAIN, scene, (129,)) for scene in SCENES}
    rows = rows_of(synthetic_profile(0), "fit")
    assert find_steps(rows, known, (129,)) == []
    assert [step.total for step in find_steps(rows, LADDERS, ())] == [129]


def test_too_few_rows_hold_no_step():
    assert find_steps(stepped_rows(0, PLANTED, points=30), LADDERS, ()) == []


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
    wrong = {seed: [step.total for step in find_steps(stepped_rows(seed, ()), LADDERS, ())] for seed in range(30)}
    assert sum(map(len, wrong.values())) <= 1, wrong
    found = {seed: {s.total for s in find_steps(stepped_rows(seed, PLANTED), LADDERS, ())} for seed in range(30)}
    assert all(set(PLANTED) <= steps for steps in found.values()), found
    assert sum(len(steps - set(PLANTED)) for steps in found.values()) <= 2, found
