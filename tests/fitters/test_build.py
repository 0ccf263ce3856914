"""The bound that is shipped is the bound that was scored."""

import numpy as np
import pytest

from chunkfit.fitters.build import build
from chunkfit.fitters.rows import held_out, rows_of
from chunkfit.profiler.synthetic_profile import synthetic_profile


@pytest.mark.parametrize("multiplier", [1.0, 50.0, 5000.0])
def test_a_bound_is_never_below_its_score_however_large_the_margin(multiplier):
    """A few stalls set a margin of thousands of noise scales: a rounding of the scale would be multiplied by it."""
    profile = synthetic_profile(3, fit_points=150, calibrate_points=400, test_points=30)
    fit_rows = rows_of(profile, "fit")
    points = held_out(profile, "calibrate", fit_rows.scenes()).points
    built, _, _ = build(fit_rows, profile.meta.domain, profile.meta.step_totals, "scene_experts")
    expected_ms, scale_ms = built.expected_and_scale(points)
    bound_ms = built.closed(built.unclosed(dict.fromkeys(built.surfaces, multiplier), 1.0)).read(points)[1]
    assert (bound_ms >= expected_ms + multiplier * scale_ms).all()
    assert np.isfinite(bound_ms).all()
