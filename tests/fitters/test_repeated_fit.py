"""The fit done again: the same bounds, the gap that the table states, and no pretence where it cannot be done."""

from dataclasses import replace

import numpy as np
import pytest

from chunkfit.files.errors import FitError
from chunkfit.fitters.build import build_chosen
from chunkfit.fitters.fit import fit
from chunkfit.fitters.validate import repeated
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.batch import Scene


@pytest.fixture(scope="module")
def made():
    """A table, its profile, the fit done again and the surfaces that it made."""
    profile = synthetic_profile(3, fit_points=150, calibrate_points=320, test_points=320)
    table = fit(profile, fitter="linear")
    surfaces = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "chunkfit.fitters.validate.build_chosen", lambda *a: surfaces.append(build_chosen(*a)) or surfaces[0]
        )
        repeat = repeated(table.document, profile)
    return table, profile, repeat, surfaces[0]


def test_it_gives_the_same_bounds_and_the_gap_of_the_table(made):
    table, _, repeat, _ = made
    assert repeat.worst_difference == 0
    assert {scene: gap.shape for scene, gap in repeat.gaps.items()} == {
        scene: table.arrays.axes.shape(scene) for scene in table.arrays.ladders
    }
    measured = max(gap[table.arrays.measured[scene]].max() for scene, gap in repeat.gaps.items())
    assert 100 * measured == pytest.approx(table.document.gap.max_node_percent)
    assert min(gap.min() for gap in repeat.gaps.values()) >= 0


def test_other_bounds_are_measured(made, monkeypatch):
    table, profile, _, built = made
    monkeypatch.setattr("chunkfit.fitters.validate.build_chosen", lambda *_: built)
    scenes = dict(table.document.scenes)
    ladder = scenes[Scene.DECODE].ladder
    raised = ladder.model_copy(update={"bound_ms": [np.ceil(2 * ms) for ms in ladder.bound_ms]})
    scenes[Scene.DECODE] = scenes[Scene.DECODE].model_copy(update={"ladder": raised})
    other = repeated(table.document.model_copy(update={"scenes": scenes}), profile)
    assert 0.2 < other.worst_difference < 1


def test_what_cannot_be_fitted_again_is_refused(made, monkeypatch):
    table, profile, _, built = made
    fitter = table.document.fitter.model_copy(update={"name": "oracle"})
    with pytest.raises(
        FitError, match=r"fitter 'oracle', scale '.*': cannot be fitted again; expected one of .*linear"
    ):
        repeated(table.document.model_copy(update={"fitter": fitter}), profile)
    with pytest.raises(FitError, match="cannot be fitted again"):
        repeated(table.document.model_copy(update={"margin": []}), profile)

    other = replace(built, axes=replace(built.axes, decodes=(*built.axes.decodes, 9999)))
    monkeypatch.setattr("chunkfit.fitters.validate.build_chosen", lambda *_: other)
    with pytest.raises(FitError, match="other knots"):
        repeated(table.document, profile)
