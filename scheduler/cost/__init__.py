"""What an iteration costs, in the form that compiled code reads: a table's surfaces, or a formula."""

from .flat_table import from_table
from .formula import CURVED, SLOWEAVE, Formula
from .iteration_factors import EXACT, noise_factors, residual_factors
from .look_up import bound_ticks, largest_chunk
from .record import OUTSIDE, Cost, scaled

__all__ = [
    "CURVED",
    "EXACT",
    "OUTSIDE",
    "SLOWEAVE",
    "Cost",
    "Formula",
    "bound_ticks",
    "from_table",
    "largest_chunk",
    "noise_factors",
    "residual_factors",
    "scaled",
]
