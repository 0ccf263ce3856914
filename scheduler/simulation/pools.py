"""Where cells are played: a pool gives reports as they come, and they are the same wherever that is.

The first cell is played here: it compiles, once, what every other process then loads.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Protocol

from ...files.errors import ChunkfitError, UsageError, WorkerError
from ..run_report import RunReport
from .cell import Cell, Costs, run_cell

Reports = Iterator[tuple[Cell, RunReport]]


class Pool(Protocol):
    def play(self, cells: Sequence[Cell]) -> Reports:
        """Each cell once, in any order. Raises what `run_cell` raises, and WorkerError."""
        ...

    def close(self) -> None:
        """Cells that nobody began are not played."""
        ...


class Processes:
    """`jobs` processes of this machine at most, started when there is work for a second one."""

    def __init__(self, costs: Costs, jobs: int) -> None:
        if jobs < 1:
            raise UsageError(f"jobs {jobs}; expected 1 or more processes")
        self._costs, self._jobs = costs, jobs
        self._executor: ProcessPoolExecutor | None = None

    def play(self, cells: Sequence[Cell]) -> Reports:
        """Each cell once, in any order. Raises what `run_cell` raises, and WorkerError."""
        here = len(cells) if self._jobs == 1 else 1 if self._executor is None else 0
        for cell in cells[:here]:
            yield cell, named_run(cell, self._costs)
        rest = cells[here:]
        if not rest:
            return
        if self._executor is None:
            # With spawn a process starts when there is a cell for it.
            self._executor = ProcessPoolExecutor(
                self._jobs, get_context("spawn"), initializer=_start, initargs=(self._costs,)
            )
        try:
            futures = {self._executor.submit(_play, cell): cell for cell in rest}
            for done in as_completed(futures):
                yield futures[done], done.result()
        except BrokenProcessPool as error:
            raise WorkerError(
                "a process that played runs has ended (killed? out of memory?); expected it to finish: what was played "
                "is kept in the journal, go on with --resume and a smaller --jobs"
            ) from error

    def close(self) -> None:
        """Waits for the cells that processes are at."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


def named_run(cell: Cell, costs: Costs) -> RunReport:
    """`run_cell`, whose errors say of which run they are."""
    try:
        return run_cell(cell, costs)
    except ChunkfitError as error:
        raise type(error)(f"{cell.title()}: {error}") from error


_costs: Costs = {}  # of a process of the pool


def _start(costs: Costs) -> None:
    """Ctrl-C ends a process of the pool at once and without a word; the parent has the last one."""
    global _costs
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _costs = costs


def _play(cell: Cell) -> RunReport:
    return named_run(cell, _costs)
