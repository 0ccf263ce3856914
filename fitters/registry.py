"""The estimators by name, the simpler ones first: selection gives ties to them."""

from __future__ import annotations

from ..tables.errors import UsageError
from .boosted import boosted
from .estimator import Estimator
from .hybrid import hybrid
from .isotonic import isotonic
from .linear import linear
from .quantile import quantile
from .scene_experts import scene_experts

ESTIMATORS: dict[str, Estimator] = {
    "linear": linear,
    "quantile": quantile,
    "scene_experts": scene_experts,
    "isotonic": isotonic,
    "boosted": boosted,
    "hybrid": hybrid,
}
AUTO = "auto"  # all of them compete


def estimators(name: str) -> dict[str, Estimator]:
    """The candidates of `--fitter name`: one, or all. `-` and `_` are the same.

    Raises UsageError with the valid names.
    """
    wanted = name.replace("-", "_")
    if wanted == AUTO:
        return dict(ESTIMATORS)
    if wanted not in ESTIMATORS:
        raise UsageError(f"--fitter {name!r} is unknown; expected {AUTO} or one of: {', '.join(ESTIMATORS)}")
    return {wanted: ESTIMATORS[wanted]}
