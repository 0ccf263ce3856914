"""What bringing a curve to ladder + base costs, on the formula that the synthetic device computes."""

import numpy as np
import pytest

from chunkfit.fitters.estimators.scene_experts import scene_experts
from chunkfit.fitters.isotonic_projection import isotonic_projection
from chunkfit.fitters.knots import axes_for, ladder_for
from chunkfit.fitters.node_residuals import base_weights, ladder_weights
from chunkfit.fitters.rows import rows_of
from chunkfit.fitters.surfaces import AdditiveCurve, additive_split
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.batch import SCENES
from chunkfit.tables.grid import node_points, scene_of

STEPS = (129,)
LAW = draw(SYNTHETIC_DOMAIN, 2000, STEPS, 1).points
ASKED = draw(SYNTHETIC_DOMAIN, 2000, STEPS, 2).points


class Formula:
    """reference-v1 without its node effect, as an estimator that knows everything but not its parts."""

    def total_ms(self, points):
        return truth.base_ms(points)


def of(scene, points):
    return points[scene_of(points) == scene.value]


@pytest.mark.parametrize(("scene", "p99"), list(zip(SCENES, (0.001, 0.016, 0.016), strict=True)))
def test_a_projected_truth_is_read_back(scene, p99):
    """Ladder and base nodes, each closed by itself, read as the table reads: nothing but the form is lost."""
    axes, ladder = axes_for(SYNTHETIC_DOMAIN, LAW), ladder_for(SYNTHETIC_DOMAIN, scene, STEPS)
    parts = additive_split(Formula(), scene, ladder, of(scene, LAW))
    ladder_ms = parts.ladder_ms(np.asarray(ladder.batch_tokens))
    base_ms = parts.base_ms(node_points(axes, scene))
    shape = axes.shape(scene)
    closed_ladder = isotonic_projection(ladder_ms, np.ones(len(ladder_ms), dtype=bool))
    closed_base = isotonic_projection(base_ms.reshape(shape), np.ones(shape, dtype=bool), float(np.median(ladder_ms)))
    asked = of(scene, ASKED)
    read = ladder_weights(ladder, asked) @ closed_ladder + base_weights(axes, scene, asked) @ closed_base.ravel()
    error = np.abs(read / truth.base_ms(asked) - 1)
    print(f"{scene.value}: median {100 * np.median(error):.3f}%, P99 {100 * np.quantile(error, 0.99):.3f}%")
    assert np.quantile(error, 0.99) < p99


def test_a_curve_of_parts_is_left_alone():
    rows = rows_of(synthetic_profile(0, fit_points=300, calibrate_points=3, test_points=3), "fit")
    ladders = {scene: ladder_for(SYNTHETIC_DOMAIN, scene, STEPS) for scene in SCENES}
    for scene, model in scene_experts(rows, ladders).items():
        assert additive_split(model.expected, scene, ladders[scene], of(scene, rows.points)) is model.expected


def test_a_projection_is_the_curve_at_every_point():
    scene = SCENES[2]
    parts = additive_split(Formula(), scene, ladder_for(SYNTHETIC_DOMAIN, scene, STEPS), of(scene, LAW))
    assert isinstance(parts, AdditiveCurve)
    asked = of(scene, ASKED)
    assert np.allclose(parts.ladder_ms(asked[:, 0] + asked[:, 2]) + parts.base_ms(asked), truth.base_ms(asked))
    low, high = parts.ladder_ms(np.array([128, 129]))
    assert high / low == pytest.approx(1.08, abs=0.01), "a step of the curve lies in the ladder"
