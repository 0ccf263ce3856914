"""The dual linear program gives the quantile, with coefficients that do not fall below 0."""

import numpy as np
import pytest

from chunkfit.fitters.estimators.quantile_lp import fit_quantile


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.99])
def test_share_below_and_recovery(quantile):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(4000), rng.uniform(0, 1e9, 4000), rng.uniform(0, 1e-3, 4000)])
    noise = rng.exponential(1.0, 4000)
    y = x @ np.array([5.0, 3e-9, 2000.0]) + noise
    found = fit_quantile(x, y, quantile)
    below = float((y <= x @ found + 1e-9).mean())
    assert below == pytest.approx(quantile, abs=0.002)
    assert found[1:] == pytest.approx([3e-9, 2000.0], rel=0.25)
    assert found[0] == pytest.approx(5.0 - np.log(1 - quantile), rel=0.1)


def test_a_falling_column_gets_zero_and_so_does_an_empty_one():
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(500), rng.uniform(0, 1, 500), np.zeros(500)])
    found = fit_quantile(x, 10 - 4 * x[:, 1] + rng.normal(0, 0.1, 500), 0.5)
    assert found[1] == 0.0
    assert found[2] == 0.0


def test_no_other_coefficients_have_a_smaller_loss():
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(80), rng.uniform(0, 1, (80, 2))])
    y = x @ np.array([1.0, 2.0, 0.0]) + rng.normal(0, 0.3, 80)

    def loss(b):
        e = y - x @ b
        return np.maximum(0.8 * e, -0.2 * e).sum()

    best = fit_quantile(x, y, 0.8)
    for _ in range(300):
        assert loss(best) <= loss(np.maximum(best + rng.normal(0, 0.05, 3), 0)) + 1e-9
