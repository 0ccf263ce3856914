"""Where a table has nodes: log-spaced for scattered points, at the measured values for a grid."""

import numpy as np
import pytest

from chunkfit.fitters.knots import LADDER_RATIO, axes_for, ladder_for, lies_on_grid
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw
from chunkfit.tables.batch import SCENES

DECODES, CONTEXTS, CHUNKS = (1, 3, 9, 100), (100, 8000), (0, 48, 96, 300)
GRID = np.array([(n, k, c, 0) for n in DECODES for k in CONTEXTS for c in CHUNKS])


def test_scattered_points_are_no_grid():
    points = draw(SYNTHETIC_DOMAIN, 500, (129,), 0).points
    assert not lies_on_grid(points)
    assert axes_for(SYNTHETIC_DOMAIN, points) == axes_for(SYNTHETIC_DOMAIN, points[:50])


@pytest.mark.parametrize("missing", [0, 8])
def test_the_values_of_a_grid_are_knots(missing):
    points = np.delete(GRID, np.arange(2, 2 + missing), axis=0)
    assert lies_on_grid(points)
    axes = axes_for(SYNTHETIC_DOMAIN, points)
    for name, values in (("decodes", DECODES), ("context_tokens", CONTEXTS), ("chunk_tokens", CHUNKS[1:])):
        assert set(values) <= set(axes.knots(name))
    assert axes.decodes[0] == axes.chunk_tokens[0] == 1
    assert axes.prefix_tokens[0] == 0
    assert axes.decodes[-1] == SYNTHETIC_DOMAIN.max_decodes


def test_only_wide_gaps_are_bridged():
    axes = axes_for(SYNTHETIC_DOMAIN, GRID)
    between = [knot for knot in axes.decodes if 9 < knot < 100]
    assert between, "from 9 to 100 a table of scattered points would have three knots"
    assert not [knot for knot in axes.decodes if 1 < knot < 3 or 3 < knot < 9]
    assert not [knot for knot in axes.chunk_tokens if 48 < knot < 96]


@pytest.mark.parametrize("scene", SCENES)
def test_the_sides_of_a_step_stand_alone_in_the_ladder(scene):
    """A knot of the usual spacing a token away would take the rise: of 257 that was 255 to 256."""
    steps = (9, 129, 257, 513)
    totals = ladder_for(SYNTHETIC_DOMAIN, scene, steps).batch_tokens
    last = totals[-1]
    for step in (step for step in steps if step < last):
        near = [total for total in totals if step / 1.03 < total < step * 1.03]
        assert near == [total for total in (step - 1, step) if step / 1.03 < total], step
    gaps = np.diff(totals) / np.asarray(totals[:-1])
    assert all(gap <= LADDER_RATIO**1.5 - 1 or low < 16 for gap, low in zip(gaps, totals[:-1], strict=True))
