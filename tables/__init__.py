"""What everything speaks: batches, cost tables, their JSON format, the order they keep.

Needs NumPy and pydantic alone, so that a table loads inside a serving engine; names load when first used.
"""

from typing import TYPE_CHECKING

from ..files.lazy import lazy_names

if TYPE_CHECKING:
    from ..files.errors import ChunkfitError as ChunkfitError
    from ..files.errors import OutOfDomainError as OutOfDomainError
    from .batch import SCENES as SCENES
    from .batch import Batch as Batch
    from .batch import Chunk as Chunk
    from .batch import Point as Point
    from .batch import Scene as Scene
    from .cost_table import CostTable as CostTable
    from .domain import Domain as Domain
    from .fingerprint import Fingerprint as Fingerprint

HOMES = {
    "SCENES": ".batch",
    "Batch": ".batch",
    "Chunk": ".batch",
    "ChunkfitError": "..files.errors",
    "CostTable": ".cost_table",
    "Domain": ".domain",
    "Fingerprint": ".fingerprint",
    "OutOfDomainError": "..files.errors",
    "Point": ".batch",
    "Scene": ".batch",
}
__all__ = [
    "SCENES",
    "Batch",
    "Chunk",
    "ChunkfitError",
    "CostTable",
    "Domain",
    "Fingerprint",
    "OutOfDomainError",
    "Point",
    "Scene",
]
__getattr__ = lazy_names(__name__, HOMES)
