"""A session of a sweep while it runs: which point is next, how long it may take, when to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import numpy as np

from ..files.errors import DeviceMemoryError
from .condition import Condition, ThrottleWatch
from .cost import CostModel, usual_work, work_of
from .devices.base import Device
from .journal_writer import JournalWriter
from .messages import Ask, Asking, EventKind, SweepEvent
from .plan import PlanPoint, Session, SweepPlan
from .timing import measure, measure_in_turn, quiet_gc, side_by_side, with_sentinels

OnEvent = Callable[[SweepEvent], None]
Outcome = Literal["complete", "deadline", "orphaned"]


class SessionRun:
    """A session while it runs: its schedule, what is done of it, and how long the rest takes.

    In the fit session of a plan with rounds, `ask` gives further points when the others are done. Nothing is measured
    meanwhile: on a CPU the one would disturb the other. Its time is the session's.

    deadline: on `clock`; None: no end. alive: asked before each point; False stops without ending the session.
    """

    def __init__(
        self,
        plan: SweepPlan,
        session: Session,
        device: Device,
        journal: JournalWriter,
        deadline: float | None,
        on_event: OnEvent,
        *,
        cost: CostModel | None = None,
        clock: Callable[[], float] = time.monotonic,
        alive: Callable[[], bool] = lambda: True,
        ask: Ask | None = None,
    ) -> None:
        self.plan, self.session, self.device, self.journal = plan, session, device, journal
        self._deadline, self._on_event, self._clock, self._alive = deadline, on_event, clock, alive
        self._cost = cost if cost is not None else CostModel()
        self._usual_work = usual_work(plan)
        self._watch = ThrottleWatch()
        self._rounds = Asking(plan, session, journal, ask)
        contents = journal.contents
        done = contents.done(session)
        known = contents.fit_points(plan) if session == "fit" else plan.points(session)
        self._todo = tuple(point for point in known if point.point_id not in done)
        self._total, self._finished, self._order = plan.planned(session), len(done), contents.next_order(session)

    def run(self) -> Outcome:
        """Measure the session's points that the journal does not hold yet, in the plan's order.

        The session stops before the first point whose predicted time passes the deadline (so that what is measured
        stays a fair sample), and so exceeds it by one point at most. A point that does not fit the device is recorded
        as skipped.
        """
        self.journal.start(self.session)
        self._tell("session")
        first = self._todo or self._rounds.next_points(self._left_s())
        self._schedule = side_by_side(with_sentinels(self.plan, first) if first else [])
        self._weigh()
        with quiet_gc():
            outcome = self._measure_schedule()
        if outcome == "orphaned":
            return outcome
        if self._rounds.left:
            outcome = "deadline"
        self.journal.end(self.session, complete=outcome == "complete")
        if outcome == "complete":
            self._total = self._finished  # rounds may have stopped at their tolerance
            self._tell("end")
        else:
            self._tell("end", message=f"time was up after {self._finished} of {self._total} points")
        return outcome

    def _measure_schedule(self) -> Outcome:
        place = 0
        while place < len(self._schedule):
            if not self._alive():
                return "orphaned"
            if not self._in_time(self._seconds([place, 0])):
                if place > 0 and self._schedule[place - 1][0].role != "sentinel":
                    self._measure_group((self.plan.sentinel,))
                return "deadline"
            group = self._schedule[place]
            self._measure_group(group)
            place += 1
            if group[0].role != "sentinel":
                self._finished += len(group)
                self._tell("progress", seconds_left=self._seconds_left(place))
            if place == len(self._schedule) and (more := self._rounds.next_points(self._left_s())):
                self._schedule += side_by_side(with_sentinels(self.plan, more)[1:])
                self._weigh()
        return "complete"

    def _measure_group(self, group: tuple[PlanPoint, ...]) -> None:
        """One point, or the two of a pair in turn, to the journal.

        In the fit session a point that was measured while the device throttled is measured again, MOST_TRIES times in
        all and while there is time. The other sessions, whose points must not be chosen, only flag it.
        """
        tries, again = 0, True
        try:
            while again:
                begin, started_s = self._clock(), self.journal.now()
                if group[1:]:
                    samples = measure_in_turn(self.device, group, self.plan)
                else:
                    samples = [measure(self.device, group[0], self.plan)]
                state = self.device.state()
                flagged, tries = self._watch.flagged(state), tries + 1
                again = self._may_repeat(group[0], self._clock() - begin) and self._watch.worth_another(flagged, tries)
        except DeviceMemoryError as error:
            for point in group:
                self.journal.skipped(self.session, point, self._order, str(error))
                self._tell("skipped", message=str(error))
                self._order += 1
            return
        condition = Condition(state=state, flagged=flagged, tries=tries)
        for point, sample in zip(group, samples, strict=True):
            self.journal.measured(self.session, point, self._order, started_s, sample, condition)
            self._order += 1
        for point in group:
            self._cost.observe(point, self.plan.warmups + point.iterations, (self._clock() - begin) / len(group))

    def _may_repeat(self, point: PlanPoint, seconds: float) -> bool:
        # The sentinel that closes the session needs its time too.
        in_time = self._in_time(seconds + self._seconds([0]))
        return self.session == "fit" and point.role != "sentinel" and in_time

    def _weigh(self) -> None:
        """The work of the schedule, for predicted times."""
        work = [work_of(group, self.plan.warmups).sum(axis=0) for group in self._schedule]
        self._work = np.asarray(work).reshape(-1, 5)

    def _seconds(self, places: list[int] | slice) -> float:
        return float(self._cost.seconds(self._work[places]).sum())

    def _seconds_left(self, place: int) -> float:
        """Predicted time of the schedule from `place` on and of the rounds to come, at most until the deadline."""
        rounds = self._cost.rounds_seconds(self._usual_work, self._finished, self._rounds.left)
        seconds = self._seconds(slice(place, None)) + rounds
        left = self._left_s()
        return seconds if left is None else max(0.0, min(seconds, left))

    def _left_s(self) -> float | None:
        return None if self._deadline is None else self._deadline - self._clock()

    def _in_time(self, seconds: float) -> bool:
        return self._deadline is None or self._clock() + seconds <= self._deadline

    def _tell(self, kind: EventKind, *, message: str = "", seconds_left: float | None = None) -> None:
        self._on_event(
            SweepEvent(
                kind=kind,
                session=self.session,
                done=self._finished,
                total=self._total,
                message=message,
                seconds_left=seconds_left,
            )
        )
