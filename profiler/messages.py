"""Messages between a sweep and its measuring processes: requests, events, and the rounds of chosen points."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ..files.strict import Frozen
from .journal import Choice
from .journal_writer import JournalWriter
from .plan import PlanPoint, Session, SweepPlan
from .rounds import CHOICE_S


class _Request(Frozen):
    device: Annotated[str, Field(description="auto or a key of DEVICES")]
    model: Annotated[str, Field(description="preset or path of a config.json")]
    plan: SweepPlan
    attention: Annotated[str | None, Field(description="a key of the engine's BACKENDS, None: the engine's choice")] = (
        None
    )
    session_module: Annotated[str, Field(description="run with python -m for each session: an engine of its own")] = (
        "chunkfit.profiler.session"
    )
    engine_arguments: Annotated[tuple[str, ...], Field(description="for that engine")] = ()
    synthetic_pause_ms: Annotated[
        float, Field(ge=0, description="real time the synthetic device takes for an iteration")
    ] = 0.0


class ProfileRequest(_Request):
    """A profile to be measured and written to `out`."""

    out: Path
    budget_s: Annotated[float | None, Field(gt=0, description="wall seconds for all of it, None: no limit")] = None
    overwrite: Annotated[bool, Field(description="replace a finished profile at `out`")] = False

    @property
    def journal(self) -> Path:
        """See `journal_of`."""
        return journal_of(self.out)


def journal_of(out: Path) -> Path:
    """Where a sweep towards `out` keeps what it has measured until the profile is written."""
    return out.with_name(out.name + ".journal.jsonl")


class SessionRequest(_Request):
    """One session, for its own process.

    sessions: those still to come, this one first. Times are of the monotonic clock, which processes of one
    machine share. cost: coefficients of an earlier session's cost model, None asks for a pilot.
    """

    sessions: Annotated[tuple[Session, ...], Field(min_length=1)]
    journal: Path
    parent_pid: int
    spawned: float
    end: float | None
    cost: tuple[float, ...] | None


EventKind = Literal["cost", "session", "progress", "skipped", "round", "end"]


class SweepEvent(Frozen):
    """One thing to tell about a sweep.

    cost: the estimate is known (`estimate`: seconds per session, process starts not counted);
    session: one begins; progress: a point is done; skipped: a point did not fit (`message`);
    round: points were chosen, or no more will be (`message` says how many, and which cell is known least);
    end: a session is over (`message` says when its time was up).
    done and total count the points of `session`, earlier attempts included; seconds_left is of this session.
    """

    kind: EventKind
    session: Session
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    message: str = ""
    estimate: dict[Session, float] = Field(default_factory=dict)
    cost: tuple[float, ...] = ()


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
