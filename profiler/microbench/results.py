"""The results file of the microbenchmarks, as a strict pydantic model.

Format history (a reader of any later release still reads every version listed here):
1  first version. Ceilings, operator rows, ridge, whole iterations, what was skipped and why.
"""

from __future__ import annotations

from os import PathLike
from typing import Annotated, Literal

from pydantic import Field

from ...files.errors import ProfileFormatError
from ...files.strict import Count, Strict, read_model, write_model
from ...tables.fingerprint import Fingerprint

FORMAT = "chunkfit.microbench"
SCHEMA_VERSION = 1

Positive = Annotated[float, Field(gt=0)]
Sizes = dict[str, Count]


class ColdCheckV1(Strict):
    """Whether cold timings are cold: reads of a quarter of the cache, with rotated buffers and with one buffer."""

    probe_bytes: Count
    cold_p50_ms: Positive
    warm_p50_ms: Positive
    ratio: Positive = Field(description="cold over warm")
    cold: bool = Field(description="ratio is over 1.1: the rotation evicts")


class MachineV1(Strict):
    cache_bytes: Count = Field(description="last-level cache: L2 of a GPU, L3 of a CPU")
    rotated_bytes: Count = Field(description="memory touched between two uses of the same buffer, at least")
    cold_check: ColdCheckV1


class CeilingsV1(Strict):
    copy_bytes_per_s: Positive = Field(description="read + written, of a copy much larger than the cache")
    flops_per_s: Positive = Field(description="of the best square matrix product, in the engine's dtype")


class OperatorRowV1(Strict):
    """One operator at one size. Times are of one call, each replay timed by itself, none averaged."""

    family: str
    name: str
    sizes: Sizes
    bytes_moved: Count = Field(description="by the convention at the top of the family's file")
    flops: Count
    p50_ms: Positive = Field(description="median over cold replays")
    p99_ms: Positive | None = Field(description="99% point over cold replays; null under 100 of them")
    n: Annotated[int, Field(ge=1, description="cold replays")]
    warm_p50_ms: Positive = Field(description="median over replays on one and the same buffer")
    bytes_per_s: Annotated[float, Field(ge=0)]
    flops_per_s: Annotated[float, Field(ge=0)]
    ceiling: Literal["bandwidth", "matrix_rate"] = Field(description="the one that allows the longer time")
    fraction: Positive = Field(description="time that ceiling allows over p50_ms")

    @property
    def key(self) -> Key:
        return key_of(self.name, self.sizes)


Key = tuple[str, tuple[tuple[str, int], ...]]


def key_of(name: str, sizes: Sizes) -> Key:
    """The identity of a row: its name and sizes."""
    return name, tuple(sorted(sizes.items()))


class RidgeV1(Strict):
    """Where the token-parallel part of one layer bends; low and high: 95% over resampled replays."""

    method: str
    tokens: Positive | None
    low: Positive | None
    high: Positive | None
    balance_tokens: Annotated[float, Field(ge=0)] | None = Field(
        description="tokens whose own time, ms_per_token each, equals level_ms"
    )
    level_ms: float
    ms_per_token: float
    error: float = Field(description="median of |fit / curve - 1|")
    finding: str


class WholeV1(Strict):
    """A whole iteration of the engine, and the sum of its operators."""

    decodes: Count
    context_tokens: Count
    chunk_tokens: Count
    prefix_tokens: Count
    n: Annotated[int, Field(ge=1, description="timed iterations")]
    p50_ms: Positive = Field(description="host wall clock, sampling included")
    fastest_ms: Positive = Field(description="far below p50_ms: something else ran on the machine")
    event_p50_ms: Positive | None
    eager_p50_ms: Positive | None = Field(description="p50_ms without CUDA graphs; null where none were captured")
    operators_cold_ms: Positive = Field(description="sum of cold medians over all layers")
    operators_warm_ms: Positive = Field(description="the same of warm medians")
    rest_ms: float = Field(description="p50_ms - operators_cold_ms")
    fits_cache: bool = Field(description="weights and KV read fit the cache: the warm sum is the nearer one")


class SkippedV1(Strict):
    name: str
    sizes: Sizes
    reason: str


class MicrobenchV1(Strict):
    format: Literal["chunkfit.microbench"] = "chunkfit.microbench"
    schema_version: Literal[1] = 1
    command: str
    git: str | None = Field(description="of the checkout the code lies in; null for an installed package")
    fingerprint: Fingerprint
    machine: MachineV1
    versions: dict[str, str | None]
    started_at: str = Field(description="ISO 8601 in UTC")
    seconds: Annotated[float, Field(ge=0)]
    ceilings: CeilingsV1
    rows: list[OperatorRowV1]
    ridge: RidgeV1
    whole: list[WholeV1]
    skipped: list[SkippedV1]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file, whole or not at all. Raises StorageError."""
        write_model(self, path)


def load(path: str | PathLike[str]) -> MicrobenchV1:
    """Read a results file. Raises ProfileFormatError for anything that is not exactly this format."""
    expected = f"results of `chunkfit microbench` ({FORMAT} version {SCHEMA_VERSION})"
    return read_model(path, MicrobenchV1, ProfileFormatError, expected, "measure again")
