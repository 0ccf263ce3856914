"""The measuring process's side of the rounds: it asks for points, waits, and writes down what it was given."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

from .journal import Choice
from .journal_writer import JournalWriter
from .plan import PlanPoint, Session, SweepPlan
from .rounds import CHOICE_S

# The next round, chosen elsewhere within the given seconds; None: it was not ready in time.
Ask = Callable[[float | None], Choice | None]


class Asking:
    """over: no round is to come. left: points that may still be chosen."""

    def __init__(self, plan: SweepPlan, session: Session, journal: JournalWriter, ask: Ask | None) -> None:
        choices = journal.contents.choices()
        self.over = plan.rounds is None or session != "fit" or any(choice.stopped for choice in choices)
        self.left = 0 if self.over or plan.rounds is None else plan.rounds.points
        self.left -= min(self.left, sum(len(choice.points) for choice in choices))
        self._journal = journal
        self._ask = ask

    def next_points(self, seconds: float | None) -> tuple[PlanPoint, ...]:
        """The points of the next round, on disk before they are returned; empty when there are no more.

        Empty too when there is no answer within `seconds` (not even asked for in less than CHOICE_S); the rounds
        are not over then.
        """
        if self.over or self._ask is None or (seconds is not None and seconds < CHOICE_S):
            return ()
        choice = self._ask(seconds)
        if choice is None:
            return ()
        self._journal.chosen(choice)
        self.over = choice.stopped is not None
        self.left = 0 if self.over else self.left - len(choice.points)
        return choice.points


def read_choice(descriptor: int, seconds: float | None) -> Choice | None:
    """A round, as a line of JSON from `descriptor`; None when it is not there after `seconds`.

    Raises BrokenPipeError when the other side is gone: the session is not over then, whatever its time.
    """
    until = None if seconds is None else time.monotonic() + seconds
    data = b""
    while not data.endswith(b"\n"):
        wait = None if until is None else max(0.0, until - time.monotonic())
        if not select.select([descriptor], [], [], wait)[0]:
            return None
        part = os.read(descriptor, 1 << 16)
        if not part:
            raise BrokenPipeError("the process that chooses the points is gone")
        data += part
    return Choice.model_validate_json(data)
