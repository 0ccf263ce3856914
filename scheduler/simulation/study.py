"""A study: cells go in, their reports come out in the same order, and none is played twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..run_report import RunReport
from .cell import Cell
from .journal import Journal
from .pools import Pool

OnDone = Callable[[int, int], None]  # cells that are done, of how many


class Study:
    """journal: None keeps reports in memory alone."""

    def __init__(self, pool: Pool, journal: Journal | None = None) -> None:
        self._pool, self._journal = pool, journal
        self._reports: dict[Cell, RunReport] = {} if journal is None else dict(journal.reports)

    def reports(self, cells: Sequence[Cell], on_done: OnDone | None = None) -> list[RunReport]:
        """One a cell, in their order. on_done: called at once, and after each cell that is played.

        Raises what the pool and the journal raise; what was played before is kept.
        """
        asked = list(dict.fromkeys(cells))
        new = [cell for cell in asked if cell not in self._reports]
        done, total = len(asked) - len(new), len(asked)
        if on_done is not None:
            on_done(done, total)
        for cell, report in self._pool.play(new):
            self._reports[cell] = report
            if self._journal is not None:
                self._journal.add(cell, report)
            done += 1
            if on_done is not None:
                on_done(done, total)
        return [self._reports[cell] for cell in cells]
