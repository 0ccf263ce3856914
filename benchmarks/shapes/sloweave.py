"""SLOWeave's evaluation on its own simulator's cost: its workloads as reconstructed, three targets, a load sweep.

Arrival rates, laws of lengths and batch limits were not published. Those here are a reconstruction near the printed
figures, and every title states them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from report import Row

from .paper import SLOWEAVE_FIGURES, SLOWEAVE_RATIOS
from .play import Setting
from .static_grid import (
    FINE,
    MANY,
    ONE,
    PAPER,
    PAPER_SET,
    TARGETS_MS,
    Compared,
    Play,
    compared,
    goodput_rows,
    ratio_rows,
    static_sets,
)
from .verdicts import Beside, claim, figure, ratio, ratio_row

# Requests/s and how many may run at once.
WORKLOADS = {"mixed": (85, 128), "long": (42, 64), "bursty": (55, 128), "chat": (85, 128)}
REPRODUCED = {"mixed": (81, 85), "long": (42,), "bursty": (55,), "chat": (85,)}
SWEPT_RATES = (30, 40, 50, 60, 70, 80, 90, 100)
ONLY_PAPER = {PAPER_SET: PAPER}


def of(
    play: Play,
    name: str,
    seeds: Sequence[int],
    sets: dict[str, tuple[str, ...]],
    targets_ms: tuple[float, ...] = TARGETS_MS,
    interpolated: bool = False,
    rate: int | None = None,
    batch: int | None = None,
) -> Compared:
    """One of the workloads, at its own rate and batch limit unless said."""
    rate, batch = rate or WORKLOADS[name][0], batch or WORKLOADS[name][1]
    setting = Setting("affine", "per_token", batch)
    title = f"{name} {rate}/s, batch {batch}"
    return compared(play, title, f"{name}:rate={rate}", setting, seeds, sets, targets_ms, interpolated)


def evaluation(play: Play, seeds: Sequence[int], per_octave: int) -> tuple[list[Row], list[Row]]:
    """(figures, claims) of the four workloads."""
    found = {name: of(play, name, seeds, static_sets(per_octave)) for name in WORKLOADS}
    rows = [row for each in found.values() for row in (*goodput_rows(each), *ratio_rows(each))]
    return rows, list(claims(found))


def claims(found: dict[str, Compared]) -> Iterator[Row]:
    for which, at_10, at_25 in ((PAPER_SET, 2.0, 1.25), (FINE, 1.1, 0.98)):
        for name in ("mixed", "long"):
            for target_ms, least in ((10.0, at_10), (25.0, at_25)):
                yield claim(*found[name].over(MANY, which, target_ms), least)
    for target_ms in TARGETS_MS:
        yield claim(*found["chat"].over(MANY, PAPER_SET, target_ms), 0.97, 1.03)
    yield tie_with_full(found["mixed"], "nearest rank")


def tie_with_full(mixed: Compared, percentile: str) -> Row:
    """The paper's 60.5 against 60.4 requests/s, with its one prefill an iteration."""
    title = f"{mixed.title}, 50 ms, {ONE} ties with full, a request's P99 gap by {percentile}"
    return claim(title, ratio(mixed.values(ONE, 50.0), mixed.values("full", 50.0)), 0.97, 1.03)


def reproduction(play: Play, seeds: Sequence[int]) -> tuple[list[Beside], list[Row]]:
    """(published beside measured, claims): one prefill an iteration, P99 gaps as NumPy interpolates them."""
    beside = []
    for name, rates in REPRODUCED.items():
        for rate in rates:
            each = of(play, name, seeds, ONLY_PAPER, interpolated=True, rate=rate)
            for (workload, target_ms, policy, what), (value, unit) in SLOWEAVE_FIGURES.items():
                if workload == name:
                    title = f"{each.title}, {target_ms:g} ms, {policy}: {what}"
                    values = printed(each, policy, target_ms, what)
                    beside.append(Beside(title, value, unit, 5, figure(title, values, unit)))
            for (workload, target_ms), value in SLOWEAVE_RATIOS.items():
                if workload == name:
                    title, measured = each.over(ONE, PAPER_SET, target_ms)
                    beside.append(Beside(title, value, "x", 5, ratio_row(title, measured)))
            if (name, rate) == ("mixed", WORKLOADS["mixed"][0]):
                tie = tie_with_full(each, "interpolation, as published")
    return beside, [tie]


def printed(found: Compared, policy: str, target_ms: float, what: str) -> list[float]:
    """One of the figures that SLOWeave's tables print, over seeds."""
    read = {
        "goodput": lambda metrics: metrics.goodput_per_s,
        "good requests": lambda metrics: 100 * metrics.good_share,
        "P99 TTFT": lambda metrics: metrics.ttft_ms.p99,
        "P99 TPOT": lambda metrics: metrics.p99_gap_ms.p99,
    }[what]
    return [read(metrics) for metrics in found.figures[policy, target_ms]]


def load_sweep(play: Play, seeds: Sequence[int], per_octave: int) -> Iterator[Row]:
    """mixed by load: the load where an adaptive chunk begins to beat static ones."""
    for rate in SWEPT_RATES:
        each = of(play, "mixed", seeds, static_sets(per_octave), (10.0, 25.0), rate=rate)
        yield from ratio_rows(each)
        for target_ms in each.targets_ms():
            share = [100 * value for value in each.values(MANY, target_ms, "good_share")]
            yield figure(f"{each.title}, {target_ms:g} ms, {MANY}: good requests", share, "%")


def variations(play: Play, seeds: Sequence[int]) -> Iterator[Row]:
    """Assumptions of the reconstruction: the batch limit, and for the tie at 50 ms the longest prompts."""
    for name in ("mixed", "long"):
        for batch in (64, 128, 256):
            each = of(play, name, seeds, ONLY_PAPER, batch=batch)
            for target_ms, ours in ((10.0, MANY), (25.0, MANY), (50.0, MANY), (50.0, ONE)):
                yield ratio_row(*each.over(ours, PAPER_SET, target_ms))
    rate, batch = WORKLOADS["mixed"]
    for longest in (8192, 6500):
        spec = f"mixed:rate={rate},max_prompt={longest}"
        title = f"mixed {rate}/s, batch {batch}, prompts up to {longest}"
        each = compared(play, title, spec, Setting("affine", "per_token", batch), seeds, ONLY_PAPER, (50.0,))
        yield ratio_row(f"{title}, 50 ms, {ONE} over full", ratio(each.values(ONE, 50.0), each.values("full", 50.0)))
