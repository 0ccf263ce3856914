"""What an iteration costs, in the form that compiled code reads: a table's surfaces, or a formula."""

from ...tables.lookup import OUTSIDE
from .formula import CURVED, SLOWEAVE, Formula
from .iteration_factors import EXACT, noise_factors, residual_factors
from .look_up import bound_ticks, largest_chunk
from .record import Cost, from_table, head_of, scaled, with_factor

__all__ = [
    "CURVED",
    "EXACT",
    "OUTSIDE",
    "SLOWEAVE",
    "Cost",
    "Formula",
    "bound_ticks",
    "from_table",
    "head_of",
    "largest_chunk",
    "noise_factors",
    "residual_factors",
    "scaled",
    "with_factor",
]
