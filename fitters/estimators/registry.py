"""The estimators by name, the simpler ones first: selection gives ties to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...files.errors import UsageError
from .boosted import boosted
from .estimator import Estimator
from .hybrid import hybrid
from .isotonic import isotonic
from .linear import linear
from .quantile import quantile
from .roofline import Roofline
from .scene_experts import scene_experts

if TYPE_CHECKING:
    from ...profiler.microbench.results import MicrobenchV1

ESTIMATORS: dict[str, Estimator] = {
    "roofline": Roofline(),  # needs microbenchmarks: see `estimators`
    "linear": linear,
    "quantile": quantile,
    "scene_experts": scene_experts,
    "isotonic": isotonic,
    "boosted": boosted,
    "hybrid": hybrid,
}
AUTO = "auto"  # all of them compete


def estimators(name: str, operators: MicrobenchV1 | None = None) -> dict[str, Estimator]:
    """The candidates of `--fitter name`: one, or all. `-` and `_` are the same.

    operators: the microbenchmarks for roofline; without them it is a candidate that raises FitError.
    Raises UsageError with the valid names.
    """
    known = {**ESTIMATORS, "roofline": Roofline(operators)}
    wanted = name.replace("-", "_")
    if wanted == AUTO:
        return known
    if wanted not in known:
        raise UsageError(f"--fitter {name!r} is unknown; expected {AUTO} or one of: {', '.join(known)}")
    return {wanted: known[wanted]}
