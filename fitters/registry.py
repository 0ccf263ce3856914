"""The estimators by name."""

from __future__ import annotations

from ..tables.errors import UsageError
from .estimator import Estimator
from .scene_experts import scene_experts

ESTIMATORS: dict[str, Estimator] = {"scene_experts": scene_experts}


def estimator(name: str) -> Estimator:
    """`-` and `_` are the same. Raises UsageError with the valid names."""
    found = ESTIMATORS.get(name.replace("-", "_"))
    if found is None:
        raise UsageError(f"--fitter {name!r} is unknown; expected one of: {', '.join(ESTIMATORS)}")
    return found
