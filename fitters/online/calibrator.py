"""Keep a table's bound true while an engine runs: observed iterations in, the table of this moment out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

from ...files.errors import OutOfDomainError, UsageError
from ...tables.batch import Batch
from ...tables.calibrator import Calibrator
from ...tables.cost_table import CostTable
from ...tables.lookup import TICKS_PER_MS, WEIGHT_ONE, raised
from ...tables.support import SupportKind
from .drift import MissCusum, PageHinkley
from .state import ShiftV1, StateV1, read_state, write_state
from .tracking import WIDEN_AT_ONCE, LevelTracker, TailTracker

UNCERTIFIED_AIM = 0.01  # of a table that certifies nothing
LARGEST_AIM = 0.25  # three times as many misses must be a share too
LEAST_MARGIN = 0.01  # log(U / E) is taken as at least this where it scales a residual
LARGEST = math.log(1000.0)  # factors stay between a thousandth and a thousand
EVENTS_KEPT = 100
_WIDENED = (
    f"the bound is raised by {100 * math.expm1(WIDEN_AT_ONCE):.0f}% at once; profile this device again if it lasts"
)
MESSAGES = {
    "misses": f"drift: the bound is missed far more often than its share: {_WIDENED}",
    "slower": f"drift: iterations take longer than before: {_WIDENED}",
    "given_back": "the last iterations would have been covered without the alarm's widening: it is given back",
    "kept": "the alarm's widening was needed and stays: the table is out of date, profile this device again",
}


@dataclass(frozen=True, slots=True)
class DriftEvent:
    """observation: how many were made. kind: misses or slower (alarms), given_back or kept (an alarm's end).

    Told after the table was exchanged, so that whoever is told sees the widened one.
    """

    observation: int
    kind: str
    message: str


class OnlineCalibrator(Calibrator):
    """Scales a table by what the engine measures, so that the bound goes on covering its share of iterations.

    One factor on all bounds and one on all expected times (`CostTable.scaled` says why not one a scene);
    tracking.py says how they move, drift.py what raises an alarm.

    `observe` and `save` belong to one thread, the engine's loop. `table` may be read from any thread at any time:
    it is one reference to an immutable table, exchanged by one assignment, and no lock is taken.
    """

    def __init__(self, table: CostTable, on_event: Callable[[DriftEvent], None] | None = None) -> None:
        """Start from a certified table.

        Args:
            table: the table as it was fitted.
            on_event: called with each DriftEvent inside `observe`, in its thread. `events` holds the last ones too.

        Raises:
            UsageError: for a table whose certified coverage leaves no misses to count, or too many.
        """
        certificate = table.document.certificate
        aim = 1 - certificate.coverage if certificate else UNCERTIFIED_AIM
        if not 0 < aim <= LARGEST_AIM:
            raise UsageError(
                f"OnlineCalibrator: the table certifies a coverage of {1 - aim:g}; expected at least "
                f"{1 - LARGEST_AIM:g} and less than 1: fit it again with --coverage 0.99"
            )
        self.observations = 0  # inside the domain
        self.misses = 0
        self.outside = 0  # batches outside the domain, which teach nothing
        self.events: deque[DriftEvent] = deque(maxlen=EVENTS_KEPT)
        self._on_event = on_event
        self._base = table
        self._has_holes = table.arrays.support is not None
        self._level = LevelTracker()
        self._tail = TailTracker(aim)
        self._cusum = MissCusum(aim, 3 * aim)
        self._shift = PageHinkley()
        self._table = table

    @property
    def table(self) -> CostTable:
        """The table of this moment. Take it once per decision and ask only that."""
        return self._table

    def observe(self, batch: Batch, latency_ms: float) -> None:
        """Learn from one iteration.

        A batch outside the table's domain is counted in `outside` and changes nothing. So is one that is answered by
        order, since its expected time is that of a batch with more work.

        Args:
            batch: the iteration's batch.
            latency_ms: its wall time.

        Raises:
            UsageError: for a latency that is not a finite number above 0.
        """
        if not 0.0 < latency_ms < math.inf:
            raise UsageError(f"observe: latency_ms is {latency_ms}; expected a finite number of ms above 0")
        table = self._table
        try:
            expected, bound = self._base.both_ms(batch)
        except OutOfDomainError:
            self.outside += 1
            return
        if self._has_holes and self._base.support_of(batch.point()) is not SupportKind.MEASURED:
            self.outside += 1
            return
        missed = latency_ms * TICKS_PER_MS > raised(int(bound * TICKS_PER_MS), table.bound.factor)
        self.observations += 1
        self.misses += missed
        over_expected = _log_ratio(latency_ms, expected)
        over_bound = _log_ratio(latency_ms, bound)
        level = self._level.add(over_expected, over_bound)
        ended = self._tail.add(missed, self._level)
        many, slow = self._cusum.add(missed), self._shift.add(_in_margins(over_expected, over_bound))
        alarm = "misses" if many else "slower" if slow else None
        # While an alarm is open another adds nothing: each miss widens already.
        widened = alarm is not None and self._tail.widen(self._level)
        self._publish(level)
        if ended is not None:
            self._tell(ended)
        if alarm is not None and widened:
            self._tell(alarm)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state, whole or not at all.

        Args:
            path: the file; it is replaced.

        Raises:
            StorageError: when it cannot be written; the old file survives.
        """
        tail, shift = self._tail, self._shift
        state = StateV1(
            table_sha256=self._base.document.content_sha256,
            observations=self.observations,
            misses=self.misses,
            outside=self.outside,
            over_expected=[over_expected for over_expected, _ in self._level.pairs],
            over_bound=[over_bound for _, over_bound in self._level.pairs],
            tail=tail.value,
            tail_before=tail.before,
            alarm_age=tail.age,
            cusum=self._cusum.value,
            shift=ShiftV1(count=shift.count, mean=shift.mean, total=shift.total, lowest=shift.lowest),
        )
        write_state(state, path)

    @classmethod
    def load(
        cls, path: str | PathLike[str], table: CostTable, on_event: Callable[[DriftEvent], None] | None = None
    ) -> OnlineCalibrator:
        """Go on where a saved state stopped, without its events.

        Args:
            path: a file that `save` wrote.
            table: the table of that state.
            on_event: as for a new calibrator.

        Returns:
            A calibrator with the saved level, tail and counts.

        Raises:
            CalibrationStateError: when the file is damaged or of another table.
        """
        state = read_state(path, table.document.content_sha256)
        made = cls(table, on_event)
        made.observations, made.misses, made.outside = state.observations, state.misses, state.outside
        made._level = LevelTracker(deque(zip(state.over_expected, state.over_bound, strict=True)))
        made._tail = TailTracker(made._tail.aim, state.tail, state.tail_before, state.alarm_age)
        made._cusum.value = state.cusum
        made._shift = PageHinkley(state.shift.count, state.shift.mean, state.shift.total, state.shift.lowest)
        made._publish(made._level.median())
        return made

    def _tell(self, kind: str) -> None:
        table = self._table
        factors = f"expected times are {table.expected.factor / WEIGHT_ONE:.3f} times the table's, "
        factors += f"bounds {table.bound.factor / WEIGHT_ONE:.3f} times"
        event = DriftEvent(self.observations, kind, f"{MESSAGES[kind]} ({factors})")
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)

    def _publish(self, level: float) -> None:
        bound = math.ceil(math.exp(min(level + self._tail.value, LARGEST)) * WEIGHT_ONE)
        expected = round(math.exp(level) * WEIGHT_ONE)
        old = self._table
        if bound != old.bound.factor or expected != old.expected.factor:
            self._table = self._base.scaled(bound, expected)


def _in_margins(over_expected: float, over_bound: float) -> float:
    """log(T / E) in units of log(U / E)."""
    return over_expected / max(over_expected - over_bound, LEAST_MARGIN)


def _log_ratio(latency_ms: float, table_ms: float) -> float:
    # A table may hold 0 ms, and a clock may say anything: no single iteration is worth more than LARGEST.
    ratio = math.log(latency_ms * TICKS_PER_MS) - math.log(max(table_ms * TICKS_PER_MS, 1.0))
    return min(max(ratio, -LARGEST), LARGEST)
