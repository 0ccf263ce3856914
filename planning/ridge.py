"""The ridge: where a curve of time over tokens stops being flat and bends upward.

Method: the continuous two-piece curve level + slope x max(0, tokens - ridge), level and slope >= 0, by least
squares of relative error; the ridge runs over 400 log-spaced places between the first and the last token count.
It is the place where the flat level and the line of the large counts meet. Left of it the weights that are
streamed anyway pay for the tokens (roofline: bandwidth), right of it arithmetic does. A constant overhead lifts
both pieces and does not move it.

Where streaming and arithmetic do not overlap the curve has no corner and the ridge lies near the first count. The
balance says more there: the tokens whose own time, at the slope of the second piece, equals the level. On a
roofline without overhead the two are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..files.errors import UsageError

METHOD = "two-piece fit level + slope * max(0, tokens - ridge), least squares of relative error"
PLACES = 400
RESAMPLES = 200
ENOUGH = 5  # token counts: two pieces have three free numbers
# A curve that rises by less than this from end to end has no ridge to speak of.
LEAST_RISE = 0.10

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ridge:
    """tokens: None where the curve has no bend within its range; `finding` says which way. low, high: 95%
    interval over resampled repeats, None without repeats or where a resample had no ridge. balance_tokens: level_ms
    / ms_per_token, None where the curve does not rise. error: median of |fit / curve - 1|.
    """

    tokens: float | None
    low: float | None
    high: float | None
    balance_tokens: float | None
    level_ms: float
    ms_per_token: float
    error: float
    finding: str


def find_ridge(tokens: ArrayLike, ms: ArrayLike) -> Ridge:
    """The ridge of one curve: token counts (m,), strictly increasing and > 0, and times (m,) > 0.

    Raises UsageError for fewer than 5 counts.

    >>> find_ridge([1, 8, 32, 128, 256, 512], [2, 2, 2, 2, 4, 8]).finding
    'bends at 128 tokens'
    """
    x, y = _checked(tokens, ms)
    places, level, slope, rise = _fit(x, y[None, :])
    place, a, q = float(places[0]), float(level[0]), float(slope[0])
    error = float(np.median(np.abs((a + q * np.maximum(0, x - place)) / y - 1)))
    balance = a / q if rise[0] >= LEAST_RISE else None
    if balance is None:
        return Ridge(None, None, None, None, a, q, error, f"flat up to {x[-1]:g} tokens: the ridge lies beyond")
    if place <= x[0]:
        return Ridge(None, None, None, balance, a, q, error, f"rises from {x[0]:g} tokens on: no flat part")
    return Ridge(place, None, None, balance, a, q, error, f"bends at {place:.3g} tokens")


def find_ridge_of_repeats(tokens: ArrayLike, repeats_ms: Sequence[ArrayLike], seed: int = 0) -> Ridge:
    """The ridge of the medians, with the interval of 200 resamples of each count's repeats."""
    samples = [np.asarray(repeats, dtype=np.float64) for repeats in repeats_ms]
    ridge = find_ridge(tokens, [np.median(sample) for sample in samples])
    if ridge.tokens is None:
        return ridge
    rng = np.random.default_rng(seed)
    medians = np.stack(
        [np.median(rng.choice(sample, size=(RESAMPLES, len(sample))), axis=1) for sample in samples], axis=1
    )
    x = np.asarray(tokens, dtype=np.float64)
    places, _, _, rise = _fit(x, medians)
    if (places <= x[0]).any() or (rise < LEAST_RISE).any():
        low = high = None
    else:
        low, high = (float(v) for v in np.quantile(places, (0.025, 0.975)))
    return replace(ridge, low=low, high=high)


def _checked(tokens: ArrayLike, ms: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(tokens, dtype=np.float64), np.asarray(ms, dtype=np.float64)
    if x.shape != y.shape or len(x) < ENOUGH or (np.diff(x) <= 0).any() or x[0] <= 0 or not (y > 0).all():
        raise UsageError(
            f"ridge: {len(x)} token counts and {len(y)} times; expected at least {ENOUGH} of each, counts strictly "
            "increasing and both above 0: measure more token counts"
        )
    return x, y


def _fit(x: Floats, curves: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Per curve (curves, m): ridge, level, slope, and the fitted rise over the range relative to the level."""
    places = np.geomspace(x[0], x[-1], PLACES)[:-1]
    hinge = np.maximum(0, x - places[:, None])  # (places, m)
    w = 1 / curves  # (curves, m)
    s11, b1 = (w**2).sum(axis=1)[:, None], w.sum(axis=1)[:, None]
    s12, s22, b2 = (w**2) @ hinge.T, (w**2) @ (hinge**2).T, w @ hinge.T  # (curves, places)
    slope = np.maximum(0, (b2 * s11 - b1 * s12) / (s11 * s22 - s12**2))
    level = np.maximum(0, (b1 - slope * s12) / s11)
    loss = (
        level**2 * s11 + 2 * level * slope * s12 + slope**2 * s22 - 2 * level * b1 - 2 * slope * b2
    )  # of relative error, less the number of counts
    # Where the loss is the same the first place is taken: a curve with no bend is a line from the first count.
    best = loss.argmin(axis=1)
    rows = np.arange(len(curves))
    a, q, place = level[rows, best], slope[rows, best], places[best]
    return place, a, q, q * (x[-1] - place) / np.maximum(a, 1e-300)
