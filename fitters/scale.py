"""How wide the noise is at a batch, up to one factor: the shape of the margin before it is calibrated.

Three candidates: `proportional` (scale = E), `tail` (scale = the estimator's 0.99 tail less its median, never below 2%
of E) and `spread` (scale = E times the relative error of left-out points around, spread.py). The one with the smallest
pinball loss at 0.99 of left-out points is taken, ties to the simpler (select.py): a 0.99 quantile of seven features
rests on few rows, and a wrong shape only inflates the bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .left_out import LeftOut
from .spread import fit_spread

SCALES = ("proportional", "tail", "spread")
# Of E: where the tail comes near the median, a distance read from few rows would multiply what calibration finds.
SMALLEST_SHARE = 0.02
MOST_STRETCH = 2.0
Millis = NDArray[np.float64]


def scale_of(kind: str, expected_ms: Millis, model_ms: Millis, tail_ms: Millis) -> Millis:
    """Proportional or tail, where the table expects `expected_ms`; the tail keeps its distance to the model's median.

    All of one shape; applies to ladder and base alike, since both are parts of the same sum. A part of the
    model that is next to nothing says nothing of the noise of what the data made of it: at most MOST_STRETCH.
    """
    if kind == "proportional":
        return expected_ms
    ratio = np.divide(expected_ms, model_ms, out=np.ones_like(expected_ms), where=model_ms > 0)
    return np.maximum((tail_ms - model_ms) * np.minimum(ratio, MOST_STRETCH), 0.0) + SMALLEST_SHARE * expected_ms


def left_out_scale(kind: str, left: LeftOut) -> Millis:
    """Any kind at left-out rows, (rows,)."""
    if kind == "spread":
        return left.expected_ms * fit_spread(left)[1]
    return scale_of(kind, left.expected_ms, left.expected_ms, left.tail_ms)


def spread_parts(spread: Millis, ladder_ms: Millis, node_ladder_ms: Millis, base_ms: Millis) -> tuple[Millis, Millis]:
    """Scales of ladder (knots,) and base that add up to spread * (node_ladder_ms + base_ms) at every node.

    The three at nodes are of one shape. The ladder has what all nodes have in common.
    """
    least = float(spread.min())
    return least * ladder_ms, spread * base_ms + (spread - least) * node_ladder_ms
