"""The wrapper says what it was asked when SciPy gives up."""

import numpy as np
import pytest

from chunkfit.files.errors import FitError
from chunkfit.fitters.estimators import least_squares
from chunkfit.fitters.estimators.boosted import boost


def test_it_recovers_and_keeps_to_zero():
    x = np.random.default_rng(0).uniform(size=(50, 3))
    assert np.allclose(least_squares.non_negative(x, x @ [2.0, 0.0, 5.0]), [2, 0, 5])
    assert (least_squares.non_negative(x, -x.sum(axis=1)) == 0).all()


def test_a_solver_that_gives_up_is_an_error_of_ours(monkeypatch):
    def gives_up(left, right, maxiter):
        raise RuntimeError(f"Maximum number of iterations reached: {maxiter}")

    monkeypatch.setattr(least_squares, "nnls", gives_up)
    with pytest.raises(FitError, match=r"3 columns on 50 rows: Maximum .* 90; .*another --fitter"):
        least_squares.non_negative(np.random.default_rng(0).uniform(size=(50, 3)), np.ones(50))


def test_what_lightgbm_refuses_is_an_error_of_ours():
    """The pair that makes squared error of log T necessary."""
    x = np.linspace(1, 2, 50)[:, None]
    refused = {"objective": "quantile", "monotone_constraints": [1], "verbosity": -1}
    with pytest.raises(FitError, match=r"LightGBM on 50 points: .*monotone_constraints.*another --fitter"):
        boost(x, x[:, 0], np.ones(50), refused, 5)
