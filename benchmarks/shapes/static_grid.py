"""SLOWeave and static policies on one workload, as goodput by target: shared by several tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from report import Row

from chunkfit.scheduler.serving_metrics import GroupMetrics

from .play import Job, Setting
from .verdicts import Ratio, best, figure, ratio, ratio_row

TARGETS_MS = (10.0, 25.0, 50.0)
PAPER = ("full", "fixed-64", "fixed-256", "fixed-1024")
ONE, MANY = "sloweave:prefills=1", "sloweave"  # one prefill an iteration is the paper's
PAPER_SET, FINE = "paper's set", "fine grid"
Play = Callable[[Sequence[Job]], list[list[GroupMetrics]]]


def static_sets(per_octave: int) -> dict[str, tuple[str, ...]]:
    """Policies by set. The fine ones go from 64 tokens to 8,192: chunks of one prefill, as the paper's are; and with
    them chunks of up to eight prefills, and token budgets.
    """
    count = 7 * per_octave + 1
    tokens = np.unique(np.rint(np.geomspace(64, 8192, count) / 8).astype(int) * 8).tolist()
    chunks = tuple(f"fixed-{each}" for each in tokens)
    several = tuple(f"fixed-{each}:prefills=8" for each in tokens)
    budgets = tuple(f"token-budget-{each}" for each in tokens)
    return {PAPER_SET: PAPER, "fine chunks": chunks, FINE: chunks + several + budgets}


@dataclass(slots=True)
class Compared:
    """Of one workload at one rate: figures by policy and target, a list over seeds each."""

    title: str
    sets: dict[str, tuple[str, ...]]
    figures: dict[tuple[str, float], list[GroupMetrics]] = field(default_factory=dict)

    def targets_ms(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys(target_ms for _, target_ms in self.figures))

    def add(self, jobs: Sequence[Job], found: Sequence[list[GroupMetrics]]) -> None:
        """The answers of `play` to these jobs."""
        for job, judged in zip(jobs, found, strict=True):
            for target_ms, metrics in zip(job.targets_ms, judged, strict=True):
                self.figures.setdefault((job.policy, target_ms), []).append(metrics)

    def values(self, name: str, target_ms: float, what: str = "goodput_per_s") -> list[float]:
        return [getattr(metrics, what) for metrics in self.figures[name, target_ms]]

    def best_static(self, which: str, target_ms: float) -> str:
        return best({name: self.values(name, target_ms) for name in self.sets[which]})

    def over(self, ours: str, which: str, target_ms: float) -> tuple[str, Ratio]:
        """(what is compared, the ratio of the means of `ours` and the best of a set)."""
        theirs = self.best_static(which, target_ms)
        title = f"{self.title}, {target_ms:g} ms, {ours} over the best of {which}, {theirs}"
        return title, ratio(self.values(ours, target_ms), self.values(theirs, target_ms))


def compared(
    play: Play,
    title: str,
    spec: str,
    setting: Setting,
    seeds: Sequence[int],
    sets: dict[str, tuple[str, ...]],
    targets_ms: tuple[float, ...] = TARGETS_MS,
    interpolated: bool = False,
) -> Compared:
    """Static policies ignore the target, so one run of each is judged by all targets."""
    static = tuple(dict.fromkeys(name for names in sets.values() for name in names))
    jobs = [Job(spec, seed, name, setting, targets_ms, interpolated) for name in static for seed in seeds]
    for name in (ONE, MANY):
        jobs += [Job(spec, seed, name, setting, (t,), interpolated) for t in targets_ms for seed in seeds]
    found = Compared(title, sets)
    found.add(jobs, play(jobs))
    return found


def goodput_rows(found: Compared) -> Iterator[Row]:
    """Goodput and share of good requests of each policy, and the best of the fine grid."""
    for target_ms in found.targets_ms():
        chosen = found.best_static(FINE, target_ms)
        for name in dict.fromkeys((*PAPER, ONE, MANY, chosen)):
            where = f"{found.title}, {target_ms:g} ms, {name}{f' (best of {FINE})' if name == chosen else ''}"
            yield figure(f"{where}: goodput", found.values(name, target_ms), "req/s")
            good = [100 * share for share in found.values(name, target_ms, "good_share")]
            yield figure(f"{where}: good requests", good, "%")


def ratio_rows(found: Compared) -> Iterator[Row]:
    """Each SLOWeave over the best of each set."""
    for target_ms in found.targets_ms():
        for ours in (ONE, MANY):
            for which in found.sets:
                yield ratio_row(*found.over(ours, which, target_ms))
