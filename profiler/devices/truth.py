"""`reference-v1`: an iteration time whose median, quantiles and coverage are known in closed form.

T = base(n, k, c, u) x node x session x body x tail, in ms:
- base = ladder(t) + attention with t = n + c, ladder = max(8, 0.045 t), 8% more from t = 129 on, and
  attention = 6e-5 n k + 0.01 n + [c > 0] (0.4 + 6e-5 u + 2.5e-6 c (u + c / 2));
- node = exp(0.005 z), z a standard normal from a hash of the point: a property of the device, the same in
  all sessions and for all seeds, and so part of the truth;
- session = exp(0.005 z) of the seed and session; body = exp(0.01 z) of each iteration;
- tail = 1 + Exp(mean 0.08) for 2% of iterations.

All of that is of equal contexts and at most one chunk. `layout_factor` is what any other batch takes beside
the batch of its totals (n, k, c, u): the others wait 1e-4 ms for each token that the longest context is over
the mean (and never longer than if all were as long), each chunk costs 0.4 ms, and its attention is its own.

Points are arrays (m, 4) of n, k, c, u. Quantiles and coverages are over sessions as well as iterations, unless a
session's factor is given.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from ...tables.batch import Batch
from ...tables.grid import Points

NAME = "reference-v1"
NODE_SD = 0.005
SESSION_SD = 0.005
BODY_SD = 0.01
TAIL_SHARE = 0.02
TAIL_MEAN = 0.08

_SPREAD_SD = (SESSION_SD**2 + BODY_SD**2) ** 0.5
_SPREAD_LIMIT = 8.5  # beyond it a standard normal has less than double precision left

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]


def base_ms(points: Points) -> Floats:
    """The formula alone, without the node effect."""
    n, k, c, u = points.T.astype(np.float64)
    total = n + c
    ladder = np.maximum(8.0, 0.045 * total) * np.where(total >= 129, 1.08, 1.0)
    chunk = 0.4 + 6e-5 * u + 2.5e-6 * c * (u + c / 2)
    return np.asarray(ladder + 6e-5 * n * k + 0.01 * n + np.where(c > 0, chunk, 0.0))


def layout_factor(batch: Batch) -> float:
    """Time of `batch` over that of equal contexts and one chunk of the same totals; 1 for such a batch.

    >>> layout_factor(Batch.of(8, 1000, 256)), round(layout_factor(Batch.with_chunks([7993, *[1] * 7], [])), 3)
    (1.0, 1.082)
    """
    point = batch.point()
    if batch == Batch.of(*point):
        return 1.0
    _, k, c, u = point
    apart = sum(chunk.chunk_tokens * (chunk.prefix_tokens + chunk.chunk_tokens / 2) for chunk in batch.chunks)
    waited = 1e-4 * (batch.longest_context - k)
    extra = waited + 2.5e-6 * (apart - c * (u + c / 2)) + 0.4 * max(0, len(batch.chunks) - 1)
    return 1 + extra / float(base_ms(np.asarray([point], dtype=np.int64))[0])


def node_ms(points: Points) -> Floats:
    """base times the node effect: what an iteration takes with every other effect at its median."""
    return base_ms(points) * np.exp(NODE_SD * _normal(_hash(_key(NAME), points)))


def median_ms(points: Points) -> Floats:
    """Median of T."""
    return quantile_ms(points, 0.5)


def quantile_ms(points: Points, q: float) -> Floats:
    """The q-quantile of T, 0 < q < 1."""
    return node_ms(points) * _ratio_quantile(q)


def coverage(points: Points, bound_ms: ArrayLike, session: float | None = None) -> Floats:
    """P(T <= bound_ms), point by point; session: in the one with that `session_factor`."""
    ratio = np.asarray(bound_ms, dtype=np.float64) / node_ms(points)
    return ratio_cdf(ratio) if session is None else ratio_cdf(ratio / session, BODY_SD)


def ratio_cdf(ratio: ArrayLike, spread_sd: float = _SPREAD_SD) -> Floats:
    """P(T / node_ms <= ratio), the same at every point; spread_sd: of the log-normal part.

    98% are log-normal. For the others the chance that 1 + Exp stays under ratio exp(-sd z) is integrated
    over z by Gauss-Legendre up to where it becomes 0.
    """
    r = np.atleast_1d(np.asarray(ratio, dtype=np.float64))
    top = np.clip(np.log(np.maximum(r, 1e-300)) / spread_sd, -_SPREAD_LIMIT, _SPREAD_LIMIT)
    nodes, weights = _legendre()
    half = (top + _SPREAD_LIMIT)[:, None] / 2
    z = -_SPREAD_LIMIT + half * (nodes + 1)
    room = np.maximum(r[:, None] * np.exp(-spread_sd * z) - 1, 0)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    tail = (half * weights * density * -np.expm1(-room / TAIL_MEAN)).sum(axis=1)
    return np.asarray((1 - TAIL_SHARE) * ndtr(top) + TAIL_SHARE * tail)


@lru_cache(maxsize=1)
def _legendre() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(80)
    return nodes, weights


@lru_cache(maxsize=64)
def _ratio_quantile(q: float) -> float:
    low, high = 0.8, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if ratio_cdf(middle)[0] < q else (low, middle)
    return high


def session_factor(seed: int, session: str) -> float:
    """What one session is slower or faster by."""
    return float(np.exp(SESSION_SD * _normal(np.full(1, _key(f"{seed}/{session}"))))[0])


def sample_ms(points: Points, visits: NDArray[np.int64], seed: int, session: str) -> Floats:
    """Iteration times (m,). visits (m,): how often the session has run that point before.

    Seed, session, point and visit decide the noise, so a sweep gives the same times in whatever order
    and however often interrupted it ran.
    """
    words = _mix(_hash(_key(f"{seed}/{session}/iterations"), points) ^ _mix(visits.astype(np.uint64)))
    body, chosen, tail = (_uniform(_mix(words + np.uint64(stream))) for stream in (1, 2, 3))
    slow = np.where(chosen < TAIL_SHARE, 1 - TAIL_MEAN * np.log(tail), 1.0)
    return np.asarray(node_ms(points) * session_factor(seed, session) * np.exp(BODY_SD * ndtri(body)) * slow)


def _key(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


def _mix(words: Words) -> Words:
    """splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _hash(key: np.uint64, points: Points) -> Words:
    words: Words = np.full(len(points), key)
    for axis in range(4):
        words = _mix(words ^ points[:, axis].astype(np.uint64))
    return words


def _uniform(words: Words) -> Floats:
    """In (0, 1), never its ends."""
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _normal(words: Words) -> Floats:
    return np.asarray(ndtri(_uniform(words)))
