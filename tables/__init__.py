"""What everything speaks: batches, cost tables, their JSON format, the order they keep.

Needs NumPy and pydantic alone, so that a table loads inside a serving engine.
"""

from .batch import SCENES, Batch, Chunk, Scene
from .cost_table import CostTable
from .domain import Domain
from .errors import ChunkfitError, OutOfDomainError
from .fingerprint import Fingerprint

__all__ = [
    "SCENES",
    "Batch",
    "Chunk",
    "ChunkfitError",
    "CostTable",
    "Domain",
    "Fingerprint",
    "OutOfDomainError",
    "Scene",
]
