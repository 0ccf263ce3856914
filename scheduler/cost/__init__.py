"""What an iteration costs, in the form that compiled code reads: a table's surfaces, or a formula."""

from ...tables.lookup import OUTSIDE
from .cost_record import EXACT, Cost, from_table, head_of, noise_factors, residual_factors, scaled, with_factor
from .formula import CURVED, SLOWEAVE, Formula
from .look_up import bound_ticks, largest_chunk

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
