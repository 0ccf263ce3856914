"""What is asked of a sweep and what it tells while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from .plan import Session, SweepPlan


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

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


class SweepEvent(BaseModel):
    """One thing to tell about a sweep.

    cost: the estimate is known (`estimate`: seconds per session, process starts not counted);
    session: one begins; progress: a point is done; skipped: a point did not fit (`message`);
    round: points were chosen, or no more will be (`message` says how many, and which cell is known least);
    end: a session is over (`message` says when its time was up).
    done and total count the points of `session`, earlier attempts included; seconds_left is of this session.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["cost", "session", "progress", "skipped", "round", "end"]
    session: Session
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    message: str = ""
    estimate: dict[Session, float] = {}
    cost: tuple[float, ...] = ()
