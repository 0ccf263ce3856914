"""chunkfit: how long will an iteration of n decodes and c prompt tokens take on this GPU, and how sure are we?

Profile a device, fit a monotone cost table with a certified bound, ask it for the largest prefill chunk:

    import chunkfit
    table = chunkfit.load("table.json")
    table.largest_chunk(decodes=40, context_tokens=1000, prefix_tokens=0, budget_ms=25.0)

Importing this package, or loading a table, imports neither torch nor SciPy: names load when first used.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from .files.lazy import lazy_names
from .tables import HOMES

if TYPE_CHECKING:
    from .fitters.fit import fit as fit
    from .fitters.online.calibrator import OnlineCalibrator as OnlineCalibrator
    from .profiler.profile import Profile as Profile
    from .profiler.sweep import profile as profile
    from .tables import Batch as Batch
    from .tables import Chunk as Chunk
    from .tables import ChunkfitError as ChunkfitError
    from .tables import CostTable as CostTable
    from .tables import Domain as Domain
    from .tables import Fingerprint as Fingerprint
    from .tables import OutOfDomainError as OutOfDomainError
    from .tables import Scene as Scene

__all__ = [
    "Batch",
    "Chunk",
    "ChunkfitError",
    "CostTable",
    "Domain",
    "Fingerprint",
    "OnlineCalibrator",
    "OutOfDomainError",
    "Profile",
    "Scene",
    "fit",
    "load",
    "profile",
]


def load(path: str | PathLike[str]) -> CostTable:
    """Read a cost table.

    Args:
        path: a table's JSON file, as `chunkfit fit` writes it.

    Returns:
        The table, checked against its schema, its checksum and the order of its bounds.

    Raises:
        TableFormatError: for a file that is not exactly what was written.
    """
    from .tables.cost_table import CostTable as Table

    return Table.load(path)


__getattr__ = lazy_names(
    __name__,
    {name: ".tables" for name in HOMES if name in __all__}
    | {
        "OnlineCalibrator": ".fitters.online.calibrator",
        "Profile": ".profiler.profile",
        "fit": ".fitters.fit",
        "profile": ".profiler.sweep",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
