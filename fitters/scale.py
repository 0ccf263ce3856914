"""How wide the noise is at a batch, up to one factor: the shape of the margin before it is calibrated.

Two candidates: `proportional` (scale = E) and `tail` (scale = the estimator's 0.99 tail less its median,
never below 2% of E). The one with the smaller held-out pinball loss at 0.99 is taken, ties to
the simpler (select.py): a 0.99 quantile of seven features rests on few rows, and a wrong shape only inflates
the bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SCALES = ("proportional", "tail")
# Of E: where the tail comes near the median, a distance read from few rows would multiply what calibration finds.
SMALLEST_SHARE = 0.02
MOST_STRETCH = 2.0
Millis = NDArray[np.float64]


def scale_of(kind: str, expected_ms: Millis, model_ms: Millis, tail_ms: Millis) -> Millis:
    """Scale where the table expects `expected_ms`; the tail keeps its distance to the model's median.

    All of one shape; applies to ladder and base alike, since both are parts of the same sum. A part of the
    model that is next to nothing says nothing of the noise of what the data made of it: at most MOST_STRETCH.
    """
    if kind == "proportional":
        return expected_ms
    ratio = np.divide(expected_ms, model_ms, out=np.ones_like(expected_ms), where=model_ms > 0)
    return np.maximum((tail_ms - model_ms) * np.minimum(ratio, MOST_STRETCH), 0.0) + SMALLEST_SHARE * expected_ms
