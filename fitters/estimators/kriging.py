"""Kriging: the value at a batch from the measured batches around it, weighted by how values agree over distance.

A Gaussian process with a Matern 3/2 covariance over the fifth roots of n, k, c, u, one length for each axis. On
logarithms large batches lie too near to each other, on plain numbers small ones do. A prediction uses the nearest
NEIGHBOURS alone, so a million points cost what a thousand do (local kriging; Vecchia 1988, Datta et al. 2016). Lengths,
amplitude and noise maximise the likelihood of drawn points given their neighbours, under a Student t, so stalls are not
taken for structure. Then each point is predicted from the others, and points far from their prediction lose weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from ...tables.grid import Points
from ..numerics import without_self

NEIGHBOURS = 24
LIKELIHOOD_POINTS, LIKELIHOOD_NEIGHBOURS = 250, 20  # drawn points, and the points that each is conditioned on
OPTIMISER_STEPS = (10, 30)  # of two rounds; between them neighbours and weights are chosen again
FEWEST_POINTS = 3  # to fit lengths to
STUDENT_DEGREES = 4.0
PREDICTION_BLOCK = 256  # predictions at a time: their matrices stay in the cache
AXIS_ROOT = 5
FIRST_LENGTH, LENGTH_LIMITS = 1.0, (0.1, 20.0)  # in roots of an axis: 1 token lies at 1, 16k tokens at 7
PRIOR_DEVIATION = 2.0  # of log parameters about their first values: few points must not decide freely
# Median distances of a value from its prediction past which it is a stall: most of the nearer ones are structure.
STALL_MEDIANS = 30.0
FIRST_NOISE, LEAST_NOISE = 0.2, 2e-3  # of the values' standard deviation; of a value

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Kriging:
    """inputs: (points, axes) divided by the lengths. values, weights: (points,); a weight divides the noise.

    mean: what holds far from data. variance, noise: of the process and of one value of weight 1.
    """

    axes: tuple[int, ...]
    lengths: Floats
    inputs: Floats
    values: Floats
    weights: Floats
    mean: float
    variance: float
    noise: float
    tree: cKDTree

    def at(self, points: Points) -> Floats:
        """Predicted value of each point, shape (points,)."""
        inputs = _inputs(points, self.axes) / self.lengths
        nearest = self._nearest(inputs, min(NEIGHBOURS, len(self.values)))
        return self._predicted(inputs, nearest)

    def leave_one_out(self) -> Floats:
        """Each own point predicted from the others, (points,)."""
        count = min(NEIGHBOURS + 1, len(self.values))
        return self._predicted(self.inputs, without_self(self._nearest(self.inputs, count)))

    def without(self, held: NDArray[np.bool_]) -> Kriging:
        """The same process without the points `held`."""
        inputs = self.inputs[~held]
        return replace(
            self, inputs=inputs, values=self.values[~held], weights=self.weights[~held], tree=cKDTree(inputs)
        )

    def _nearest(self, inputs: Floats, count: int) -> Places:
        _, nearest = self.tree.query(inputs, k=count)
        return np.asarray(nearest, dtype=np.int64).reshape(len(inputs), count)

    def _predicted(self, inputs: Floats, nearest: Places) -> Floats:
        out = np.empty(len(inputs))
        for start in range(0, len(inputs), PREDICTION_BLOCK):
            block = slice(start, start + PREDICTION_BLOCK)
            near = self.inputs[nearest[block]]
            within = self.variance * _matern(_squared(near, near))
            diagonal = np.arange(near.shape[1])
            within[:, diagonal, diagonal] += self.noise / self.weights[nearest[block]]
            across = self.variance * _matern(_squared(near, inputs[block, None]))
            shares = np.linalg.solve(within, across)[:, :, 0]
            out[block] = self.mean + (shares * (self.values[nearest[block]] - self.mean)).sum(axis=1)
        return out


def fit_kriging(points: Points, values: Floats, counts: Floats) -> Kriging:
    """points: (points, 4), distinct. values: (points,), of any unit. counts: (points,), measurements behind each."""
    axes = tuple(axis for axis in range(4) if len(np.unique(points[:, axis])) > 1) or (0,)
    inputs, mean, spread = _inputs(points, axes), float(np.mean(values)), max(float(np.std(values)), LEAST_NOISE)
    first = np.log([*[FIRST_LENGTH] * len(axes), spread, FIRST_NOISE * spread])
    parameters, weights = first, counts
    for steps in OPTIMISER_STEPS if len(values) >= FEWEST_POINTS else ():
        parameters = _likeliest(parameters, first, spread, inputs, values - mean, weights, steps)
        made = _made(axes, inputs, values, weights, mean, parameters)
        off = np.abs(values - made.leave_one_out())
        stall = STALL_MEDIANS * max(float(np.median(off)), LEAST_NOISE)
        weights = counts * np.minimum(1.0, stall / np.maximum(off, stall)) ** 4
    return _made(axes, inputs, values, weights, mean, parameters)


def _made(
    axes: tuple[int, ...], inputs: Floats, values: Floats, weights: Floats, mean: float, parameters: Floats
) -> Kriging:
    lengths, variance, noise = _unpacked(parameters)
    scaled = inputs / lengths
    return Kriging(axes, lengths, scaled, values, weights, mean, variance, noise, cKDTree(scaled))


def _inputs(points: Points, axes: tuple[int, ...]) -> Floats:
    return np.asarray(points[:, axes] ** (1.0 / AXIS_ROOT))


def _squared(a: Floats, b: Floats) -> Floats:
    """Squared distances (batches, a, b)."""
    within = (a**2).sum(axis=2)[:, :, None] + (b**2).sum(axis=2)[:, None, :] - 2 * a @ b.transpose(0, 2, 1)
    return np.asarray(np.maximum(within, 0.0))


def _matern(squared: Floats) -> Floats:
    root = np.sqrt(3.0 * squared)
    return np.asarray((1.0 + root) * np.exp(-root))


def _unpacked(parameters: Floats) -> tuple[Floats, float, float]:
    return np.exp(parameters[:-2]), float(np.exp(2 * parameters[-2])), float(np.exp(2 * parameters[-1]))


def _likeliest(
    parameters: Floats, first: Floats, spread: float, inputs: Floats, values: Floats, weights: Floats, steps: int
) -> Floats:
    """Logarithms of lengths (axes,), process spread and noise spread; neighbours are chosen by those given."""
    dimensions = inputs.shape[1]
    low = np.log([*[LENGTH_LIMITS[0]] * dimensions, 0.05 * spread, LEAST_NOISE])
    high = np.log([*[LENGTH_LIMITS[1]] * dimensions, 10 * spread, 2 * spread + LEAST_NOISE])
    drawn = np.random.default_rng(0).permutation(len(values))[:LIKELIHOOD_POINTS]
    scaled = inputs / _unpacked(parameters)[0]
    _, near = cKDTree(scaled).query(scaled[drawn], k=min(LIKELIHOOD_NEIGHBOURS + 1, len(values)))
    near = np.where(near[:, 1:] == drawn[:, None], near[:, :1], near[:, 1:])
    group = np.concatenate([drawn[:, None], near], axis=1)
    arguments = (inputs[group], values[group], weights[group], first)
    bounds = list(zip(low, high, strict=True))
    optimum = minimize(loss, parameters, arguments, "L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": steps})
    return np.asarray(optimum.x)


def loss(parameters: Floats, inputs: Floats, values: Floats, weights: Floats, first: Floats) -> tuple[float, Floats]:
    """Less the log likelihood of the first value of each group given the others, and the prior's share; the gradient.

    parameters, first: (axes + 2,). inputs: (groups, members, axes). values, weights: (groups, members). With C the
    covariance of a group, u = (1, -shares) and a = (0, C_others^-1 values), whatever changes C by dC changes the
    variance left by u' dC u and the value's distance by -u' dC a.
    """
    lengths, variance, noise = _unpacked(parameters)
    scaled = inputs / lengths
    squared = _squared(scaled, scaled)
    alike = _matern(squared)
    covariance = variance * alike
    diagonal = np.arange(inputs.shape[1])
    covariance[:, diagonal, diagonal] += noise / weights
    sides = np.stack([covariance[:, 1:, 0], values[:, 1:]], axis=2)
    shares, alpha = np.moveaxis(np.linalg.solve(covariance[:, 1:, 1:], sides), 2, 0)
    rest = np.maximum(covariance[:, 0, 0] - (shares * covariance[:, 1:, 0]).sum(axis=1), 1e-12)
    off = values[:, 0] - (shares * values[:, 1:]).sum(axis=1)
    ratio = off**2 / rest / STUDENT_DEGREES
    likelihood = 0.5 * np.log(rest) + (STUDENT_DEGREES + 1) / 2 * np.log1p(ratio)
    by_off = (STUDENT_DEGREES + 1) / STUDENT_DEGREES * off / rest / (1 + ratio)
    by_left = 0.5 / rest - 0.5 * by_off * off / rest
    ones = np.ones((len(values), 1))
    u, a = np.hstack([ones, -shares]), np.hstack([0 * ones, alpha])
    by_covariance = u[:, :, None] * (by_left[:, None] * u - by_off[:, None] * a)[:, None, :]
    by_squared = 3 * variance * np.exp(-np.sqrt(3 * squared)) * by_covariance
    both = (by_squared.sum(axis=1) + by_squared.sum(axis=2))[:, :, None]
    gradient = [
        *(both * scaled**2 - 2 * scaled * (by_squared @ scaled)).sum(axis=(0, 1)),
        2 * variance * (by_covariance * alike).sum(),
        2 * noise * (by_covariance[:, diagonal, diagonal] / weights).sum(),
    ]
    prior = (parameters - first) / PRIOR_DEVIATION**2
    return float(likelihood.sum() + 0.5 * (prior * (parameters - first)).sum()), np.asarray(gradient) + prior
