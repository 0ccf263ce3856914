"""What a live run is doing, drawn on the terminal by a process of its own.

Drawing takes some milliseconds, which in the serving process would be an iteration's; a message takes microseconds.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

from .output import progress_console

if TYPE_CHECKING:
    from rich.table import Table

    from ..scheduler.live.runner import Outcome
    from ..scheduler.live.serve import Glance

RUNS_SHOWN = 12


class Running(NamedTuple):
    """One look at a run."""

    policy: str
    rate: float
    seconds: float
    arrived: int
    running: int
    waiting: int
    iterations: int
    last_ms: float
    budget_ms: float
    missed: int


class Finished(NamedTuple):
    """One run that is over."""

    policy: str
    rate: float
    good_share: float
    goodput_per_s: float
    missed: int


class Display:
    """Within `with`: a table that is drawn again four times a second, or a line a run where stderr is no terminal."""

    def __init__(self) -> None:
        self._console = progress_console()
        self._pipe: Connection | None = None

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            context = multiprocessing.get_context("spawn")
            receiver, self._pipe = context.Pipe(duplex=False)
            self._process = context.Process(target=draw, args=(receiver,), daemon=True)
            self._process.start()
            receiver.close()
        return self

    def __exit__(self, *_: object) -> None:
        if self._pipe is not None:
            self._send(None)
            self._process.join(5)

    def show(self, policy: str, rate: float, glance: Glance) -> None:
        self._send(
            Running(
                policy,
                rate,
                glance.now_ms / 1e3,
                glance.arrived,
                glance.running,
                glance.waiting,
                glance.iterations,
                glance.last_ms,
                glance.budget_ms,
                glance.missed,
            )
        )

    def finished(self, outcome: Outcome) -> None:
        group, log = outcome.report.over_all, outcome.live.run.log
        missed = int((log["engine_ms"] > log["bound_ms"]).sum())
        said = Finished(outcome.policy.name, outcome.rate, group.good_share, group.goodput_per_s, missed)
        if self._pipe is None:
            self._console.print(
                f"{said.policy} at {said.rate:.4g}/s: {100 * said.good_share:.1f}% good, {said.goodput_per_s:.4g} "
                f"good/s, {said.missed} of {len(log):,} iterations over the bound",
                highlight=False,
            )
        self._send(said)

    def _send(self, what: Running | Finished | None) -> None:
        if self._pipe is not None:
            with contextlib.suppress(OSError):  # nobody draws any more; the run goes on
                self._pipe.send(what)


def draw(pipe: Connection) -> None:
    """The drawing process, until it is told None or nobody is there to tell."""
    from rich.console import Group
    from rich.live import Live

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the serving process's
    now: Running | None = None
    done: list[Finished] = []
    with Live(console=progress_console(), auto_refresh=False) as live:
        while True:
            try:
                said = pipe.recv()
            except EOFError:
                return
            if said is None:
                return
            if isinstance(said, Finished):
                done.append(said)
            else:
                now = said
            live.update(Group(*shown(now, done)), refresh=True)


def shown(now: Running | None, done: list[Finished]) -> list[Table]:
    """The runs that are over, and the one that is not."""
    from rich.table import Table

    over = Table("policy", "rate /s", "good", "good /s", "over bound", title=f"{len(done)} runs so far")
    for run in done[-RUNS_SHOWN:]:
        share, goodput = f"{100 * run.good_share:.1f}%", f"{run.goodput_per_s:.4g}"
        over.add_row(run.policy, f"{run.rate:.4g}", share, goodput, str(run.missed))
    if now is None:
        return [over]
    current = Table(
        "policy", "rate /s", "s", "arrived", "running", "waiting", "iterations", "last ms", "budget ms", "over bound"
    )
    times = ("-" if ms != ms else f"{ms:.3g}" for ms in (now.last_ms, now.budget_ms))
    counts = (now.arrived, now.running, now.waiting, now.iterations)
    current.add_row(now.policy, f"{now.rate:.4g}", f"{now.seconds:.1f}", *map(str, counts), *times, str(now.missed))
    return [over, current]
