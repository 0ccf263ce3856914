"""The result of a log format: samples, facts about them, and the columns that were not read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ...files.records import Record, SkippedRows
from ...tables.batch import Batch
from ...tables.fingerprint import Fingerprint

Split = Literal["time", "points", "replicates"]


@dataclass(frozen=True, slots=True)
class LoggedIteration:
    """One timed iteration (or the mean of some: `Imported.aggregation`) by the totals that a table reads.

    longest_tokens: the largest context, or prefix with its chunk, of one request, as far as the log says.
    unequal, several: decodes of unequal contexts, more than one chunk; what the totals do not show.
    started_s: by the log's own clock; 0 where it has none. stamp: by which the log orders it, in any unit.
    pass_key: the same in the rows of one pass that several ranks wrote.
    """

    n: int
    k: int
    c: int
    u: int
    latency_ms: float
    longest_tokens: int
    unequal: bool = False
    several: bool = False
    started_s: float = 0.0
    stamp: float | None = None
    pass_key: Hashable | None = None

    def __post_init__(self) -> None:
        if self.stamp is None and self.started_s:
            object.__setattr__(self, "stamp", self.started_s)

    @classmethod
    def of_batch(cls, batch: Batch, latency_ms: float, started_s: float = 0.0) -> LoggedIteration:
        """Of a batch that is known request by request."""
        ends = [chunk.prefix_tokens + chunk.chunk_tokens for chunk in batch.chunks]
        return cls(
            *batch.point(),
            latency_ms,
            longest_tokens=max([batch.longest_context, *ends]),
            unequal=len(set(batch.decode_contexts)) > 1,
            several=len(batch.chunks) > 1,
            started_s=started_s,
        )

    @classmethod
    def of_totals(
        cls,
        n: int,
        k: int,
        c: int,
        u: int,
        latency_ms: float,
        *,
        unequal: bool = False,
        chunks: int = 1,
        started_s: float = 0.0,
        stamp: float | None = None,
        pass_key: Hashable | None = None,
    ) -> LoggedIteration:
        """Of totals; a context without decodes and a prefix without a chunk count as none."""
        k, u = k if n else 0, u if c else 0
        # Of several chunks the longest is not known; the mean is the least that it can be.
        longest = max(k, -(-(u + c) // max(chunks, 1)))
        return cls(n, k, c, u, latency_ms, longest, unequal and n > 1, chunks > 1, started_s, stamp, pass_key)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user says beside the file.

    mapping: n, k, c, u, latency, order -> column, number or product of them (see mapping.py).
    unit: of latencies. where: column -> value; rows of other values are left out.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Imported:
    """samples: in the order of time, or of the file. known: what the file itself says; the rest is None.

    unread: columns that were not read, with some of the values they hold.
    """

    samples: Sequence[LoggedIteration]
    aggregation: str
    known: Fingerprint = field(default_factory=Fingerprint)
    unread: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Reader(Protocol):
    def __call__(self, path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
        """The samples of a file; rows that are no iteration go to `left_out`.

        Raises UsageError when the file cannot be opened, LogFormatError naming the place and the column of
        what it does not understand.
        """


@dataclass(frozen=True, slots=True)
class LogFormat:
    """summary: one line. split: how sessions are cut unless the user says.

    must_say, may_say: what --map has to and may hold, since the file does not say it: columns where `columns`,
    else whole numbers. `columns` also takes --unit. where: takes --where.
    """

    read: Reader
    summary: str
    split: Split
    must_say: tuple[str, ...] = ()
    may_say: tuple[str, ...] = ()
    columns: bool = False
    where: bool = False


SOME_VALUES = 3
_LONGEST = 24  # characters of a value


class UnreadColumns:
    """Every column but `used`, with some of the values it holds."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = frozenset(used)
        self._values: dict[str, dict[str, None]] = {}

    def see(self, record: Record) -> None:
        for column in record.values.keys() - self._used:
            known = self._values.setdefault(column, {})
            if len(known) < SOME_VALUES:
                known[str(record.values[column])[:_LONGEST]] = None

    def shown(self) -> dict[str, list[str]]:
        """Columns by name, up to SOME_VALUES values of each in the order of the file."""
        return {column: list(known) for column, known in sorted(self._values.items())}
