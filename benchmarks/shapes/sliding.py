"""SlidingServe's evaluation on a curved cost: capacity at 99% good, overload, square wave, its parts one by one.

TTFT targets are max(slowdown x the request's time alone, 500 ms); as printed, without a floor, short prompts get some
100 ms. The deadline model is the schedule: a request is late with its first late token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from report import Row

from chunkfit.scheduler.capacity import Capacity, capacity

from .paper import SLIDING_CAPACITY, SLIDING_OVER_EDF, SLIDING_OVER_QOSERVE, SLIDING_OVERLOAD, SLIDING_WAVE
from .play import Job, Setting, play
from .verdicts import Beside, Ratio, claim, figure, ratio_row

# 26 GB of two 24 GB cards hold 200,000 KV tokens of 131 kB.
TWO_3090 = Setting("curved", "schedule", 128, 200_000 // 16)
EDF = "sarathi-edf-256"
PARTS = {
    "SC": "slidingserve-512:sorter=no,constructor=no",
    "SC + MLPS": "slidingserve-512:constructor=no",
    "SC + MLPS + BC": "slidingserve-512",
}
SLIDING = PARTS["SC + MLPS + BC"]
QOSERVE = "qoserve-1024"  # its grid cut to the device; 2552 is the shipped one, made for an A100
POLICIES = (EDF, "sarathi-edf-512", *PARTS.values(), "slidingserve-2048", QOSERVE, "qoserve-2552")
WORKLOADS = ("arxiv-v1", "arxiv-v2", "mixed-v1", "mixed-v2", "sharegpt")
GATED = WORKLOADS[:4]
SHARE = 0.99
OVERLOAD = 2.0  # times the capacity of Sarathi-EDF, as 3 requests/s to 1.5 in the paper
Map = Callable[..., list]


def rated(spec: str, rate: float) -> str:
    """The text with that rate; the rate is written in full, so that two rates never become one."""
    return f"{spec}{',' if ':' in spec else ':'}rate={rate!r}"


def capacity_of(spec: str, policy: str, setting: Setting, seeds: Sequence[int], share: float) -> Capacity:
    """Highest rate at which the share is good on average over the seeds, to 1%."""

    def good_share(rate: float, seed: int) -> float:
        return play(Job(rated(spec, rate), seed, policy, setting))[0].good_share

    return capacity(good_share, seeds, share, *setting.rates)


def capacities(
    spread: Map, specs: Sequence[str], policies: Sequence[str], setting: Setting, seeds: Sequence[int], share: float
) -> dict[tuple[str, str], Capacity]:
    cases = [(spec, policy) for spec in specs for policy in policies]
    columns = zip(*((spec, policy, setting, seeds, share) for spec, policy in cases), strict=True)
    return dict(zip(cases, spread(capacity_of, *columns), strict=True))


def bracket(ours: Capacity, theirs: Capacity, seeds: int) -> Ratio:
    """Of two capacities; low and high are how far the bisections leave it open. 0 and nan: not even the lowest rate."""
    if not ours.rate or not theirs.rate:
        return Ratio(ours.rate / theirs.rate if theirs.rate else math.nan, math.nan, math.nan, seeds)
    low = ours.rate / (theirs.above or math.inf)
    return Ratio(ours.rate / theirs.rate, low, (ours.above or math.inf) / theirs.rate, seeds)


def capacity_row(title: str, found: Capacity, seeds: int) -> Row:
    """low: the highest rate that holds; high: the lowest that does not."""
    note = "req/s" if found.orderly else "req/s; the share does not fall steadily with the rate"
    return Row(f"{title}: capacity at {100 * SHARE:g}% good", found.rate, note, seeds, found.rate, found.above)


def late_percent(spread: Map, spec: str, policy: str, setting: Setting, seeds: Sequence[int]) -> list[float]:
    """Percent of the requests that are not good, by seed."""
    jobs = [Job(spec, seed, policy, setting) for seed in seeds]
    return [100 * (1 - judged[0].good_share) for judged in spread(play, jobs)]


def evaluation(spread: Map, seeds: Sequence[int], requests: int) -> tuple[list[Row], list[Beside], list[Row]]:
    """(figures, published and measured, claims)."""
    specs = {name: f"{name}:requests={requests}" for name in WORKLOADS}
    found = capacities(spread, tuple(specs.values()), POLICIES, TWO_3090, seeds, SHARE)
    rows: list[Row] = []
    claims: list[Row] = []
    late: dict[tuple[str, str], list[float]] = {}
    for name, spec in specs.items():
        rows += [capacity_row(f"{name}, {policy}", found[spec, policy], len(seeds)) for policy in POLICIES]
        edf = found[spec, EDF].rate
        over = bracket(found[spec, SLIDING], found[spec, EDF], len(seeds))
        title = f"{name}, {SLIDING} over {EDF}: capacity"
        claims += [claim(title, over, 1.05)] if name in GATED else [ratio_row(title, over)]
        for policy in POLICIES:
            late[name, policy] = late_percent(spread, rated(spec, OVERLOAD * edf), policy, TWO_3090, seeds)
            rows.append(figure(f"{name}, {policy}: late at {OVERLOAD * edf:.3g}/s", late[name, policy], "%"))
        if name in GATED:
            claims += list(falling(name, {policy: late[name, policy] for policy in (EDF, *PARTS.values())}))
    beside = [*over_others(specs, found, len(seeds)), *printed_beside(specs["mixed-v1"], found, late, len(seeds))]
    waves, wave_rows = square_waves(spread, seeds, found[specs["mixed-v1"], EDF].rate)
    return rows + wave_rows, beside + waves, claims


def falling(name: str, late: dict[str, list[float]]) -> Iterator[Row]:
    """Overload violations before and after each part; low and high are the least and the most of a seed by itself."""
    means = [np.mean(values) for values in late.values()]
    steps = np.diff(list(late.values()), axis=0)
    least = Ratio(float(-np.diff(means).max()), float(-steps.max()), float(-steps.min()), steps.shape[1])
    row = claim(f"{name}, overload: the least fall of late requests with a part added (percentage points)", least, 1e-9)
    yield Row(row.name.replace(", at least 1e-09", ", above 0"), row.value, "%", row.n, row.lo, row.hi)


def over_others(specs: dict[str, str], found: dict[tuple[str, str], Capacity], seeds: int) -> Iterator[Beside]:
    """Its Figure 4: the least and the most that its capacity is over each other's, on five workloads."""
    for theirs, published in {EDF: SLIDING_OVER_EDF, QOSERVE: SLIDING_OVER_QOSERVE}.items():
        ratios = {name: bracket(found[spec, SLIDING], found[spec, theirs], seeds) for name, spec in specs.items()}
        ordered = sorted(ratios, key=lambda name: ratios[name].value)
        for word, value, name in zip(("least", "most"), published, (ordered[0], ordered[-1]), strict=True):
            title = f"{word} of five workloads ({name}), {SLIDING} over {theirs}: capacity"
            yield Beside(title, value, "x", 0, ratio_row(title, ratios[name]))


def printed_beside(
    spec: str, found: dict[tuple[str, str], Capacity], late: dict[tuple[str, str], list[float]], seeds: int
) -> Iterator[Beside]:
    """Its Table 4: gains over the step before are compared, since the device is another."""
    names = {"sarathi-edf": EDF, **PARTS}
    before = None
    for part, policy in names.items():
        if before is not None:
            title = f"mixed-v1, {part} over {before}: capacity"
            value = SLIDING_CAPACITY[part] / SLIDING_CAPACITY[before]
            measured = ratio_row(title, bracket(found[spec, policy], found[spec, names[before]], seeds))
            yield Beside(title, value, "x", 0, measured)
        title = f"mixed-v1, {part}: late at {OVERLOAD:g} times the capacity of {EDF}"
        yield Beside(title, SLIDING_OVERLOAD[part], "%", 0, figure(title, late["mixed-v1", policy], "%"))
        before = part


def square_waves(spread: Map, seeds: Sequence[int], edf_rate: float) -> tuple[list[Beside], list[Row]]:
    """20 minutes of its section 5.3: 1.0 and 2.5 requests/s as printed, and both times our capacity over its."""
    rows: list[Row] = []
    beside: list[Beside] = []
    stretch = edf_rate / SLIDING_CAPACITY["sarathi-edf"]
    for what, factor in (("as printed", 1.0), (f"times {stretch:.3g}", stretch)):
        rate = 1.75 * factor
        spec = f"mixed-v1:arrivals=square,requests={round(rate * 1200)},rate={rate!r}"
        for policy in (EDF, QOSERVE, SLIDING):
            title = f"mixed-v1, square wave of {factor:.3g} and {2.5 * factor:.3g}/s, {policy}: late"
            row = figure(title, late_percent(spread, spec, policy, TWO_3090, seeds), "%")
            rows.append(row)
            if what != "as printed":
                published = SLIDING_WAVE[policy.rpartition("-")[0]]
                beside.append(Beside(title, published, "%", 0, row))
    return beside, rows
