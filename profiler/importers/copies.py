"""Rows of a log that are no further draws: one pass as each of its ranks saw it, and copies of other rows.

A certificate counts rows as independent draws. The same pass seen by eight ranks is one draw, and so is a row that was
written three times or a log that was joined to itself. Of the ranks of a pass the slowest is kept, since the pass ends
with it; of copies the first.

Without time stamps two rows of equal batch and latency may be two iterations whose times were rounded to the same
number. Copies are told from such ties by what ties do not do: every row occurs a multiple of the same number of times;
the next equal row lies the same distance further on; or, where times have digits enough, rows are equal far more often
than they differ by one unit of the last digit, which rounding makes as likely.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby

import numpy as np

from ...files.records import SkippedRows
from .samples import LoggedIteration

RANK = "another rank of a pass that is there"
COPY = "a copy of another row"
# Sum of all latencies over the time that the stamps span: one engine's iterations follow each other.
AT_ONCE = 1.5
SHARED_STAMPS = 0.2  # of rows, from which stamps in common mean ranks
# Ties beyond this many times what rounding explains, and this many, are copies.
TIES_RATIO = 3.0
LEAST_COPIES = 3
FINE_UNIT = 1e-4  # last digit over the median time, up to which iterations hardly ever tie
ENOUGH = 20  # rows that show a pattern
SAME_DISTANCE = 0.8


def independent(samples: Sequence[LoggedIteration], left_out: SkippedRows) -> list[LoggedIteration]:
    """One row for each pass, in the order given; the others go to `left_out`."""
    named = _one_rank(samples, [sample.pass_key for sample in samples], left_out)
    distinct = _without_copies(named, left_out)
    if not _at_once(distinct):
        return distinct
    return _one_rank(distinct, [sample.started_s for sample in distinct], left_out)


def _one_rank(
    samples: Sequence[LoggedIteration], keys: Sequence[Hashable | None], left_out: SkippedRows
) -> list[LoggedIteration]:
    """The slowest row of each key; None is of no pass that others saw."""
    slowest: dict[Hashable, int] = {}
    for index, (key, sample) in enumerate(zip(keys, samples, strict=True)):
        if key is not None:
            other = slowest.setdefault(key, index)
            if _weight(sample) > _weight(samples[other]):
                slowest[key] = index
    kept = []
    for index, (key, sample) in enumerate(zip(keys, samples, strict=True)):
        if key is None or slowest[key] == index:
            kept.append(sample)
        else:
            left_out.add(RANK, f"iteration {index + 1}")
    return kept


def _weight(sample: LoggedIteration) -> tuple[float, int]:
    """Ranks that were equally slow: the one with the most work."""
    return sample.latency_ms, sample.n * sample.k + sample.c + sample.u


def _at_once(samples: Sequence[LoggedIteration]) -> bool:
    """Whether rows with one stamp ran at once: in turn they would take longer than the stamps span."""
    stamps = np.asarray([sample.started_s for sample in samples])
    if not len(stamps) or not stamps.any():
        return False
    shared = 1 - len(np.unique(stamps)) / len(stamps)
    latency_s = np.asarray([sample.latency_ms for sample in samples]) / 1000
    return bool(shared >= SHARED_STAMPS and latency_s.sum() > AT_ONCE * (np.ptp(stamps) + latency_s.max()))


def _without_copies(samples: Sequence[LoggedIteration], left_out: SkippedRows) -> list[LoggedIteration]:
    """Without the rows that equal an earlier one in batch, latency and stamp."""
    stamped = any(sample.stamp is not None for sample in samples)
    if not stamped and not _copied(samples):
        return list(samples)
    seen: set[Hashable] = set()
    kept = []
    for index, sample in enumerate(samples):
        row = (sample.stamp, *_batch(sample), sample.latency_ms)
        if row in seen:
            left_out.add(COPY, f"iteration {index + 1}")
        else:
            seen.add(row)
            kept.append(sample)
    return kept


def _batch(sample: LoggedIteration) -> tuple[int, int, int, int]:
    return sample.n, sample.k, sample.c, sample.u


def _copied(samples: Sequence[LoggedIteration]) -> bool:
    """Whether equal rows are copies rather than ties of rounded times."""
    rows = [(*_batch(sample), sample.latency_ms) for sample in samples]
    counts = Counter(rows)
    if len(counts) == len(rows):
        return False
    if len(counts) >= ENOUGH and math.gcd(*counts.values()) > 1:
        return True
    return _repeated_stretch(rows) or _more_ties_than_rounding(rows)


def _repeated_stretch(rows: Sequence[Hashable]) -> bool:
    """Whether rows come again, one stretch as a whole: most equal rows lie the same distance apart."""
    last: dict[Hashable, int] = {}
    distances: Counter[int] = Counter()
    for index, row in enumerate(rows):
        if row in last:
            distances[index - last[row]] += 1
        last[row] = index
    distance, count = distances.most_common(1)[0]
    return distance >= ENOUGH and count >= ENOUGH and count >= SAME_DISTANCE * distances.total()


def _more_ties_than_rounding(rows: Iterable[tuple[int, int, int, int, float]]) -> bool:
    """Whether more pairs of rows with one batch have the same latency than the last digit of the latencies explains."""
    ordered = sorted(rows)
    latencies = [row[-1] for row in ordered]
    unit = _last_digit(latencies)
    if unit > FINE_UNIT * statistics.median(latencies):
        return False
    ties = neighbours = 0
    for _, equal in groupby(ordered, key=lambda row: row[:-1]):
        levels = Counter(round(row[-1] / unit) for row in equal)
        ties += sum(count * (count - 1) // 2 for count in levels.values())
        neighbours += sum(count * levels.get(level + 1, 0) for level, count in levels.items())
    return ties > LEAST_COPIES + TIES_RATIO * neighbours / 2


def _last_digit(latencies: Sequence[float]) -> float:
    """The unit of the last decimal that the latencies have, in ms, at least 1e-6."""
    for digits in range(7):
        if all(round(latency, digits) == latency for latency in latencies):
            return 10.0**-digits
    return 1e-6
