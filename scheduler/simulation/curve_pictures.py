"""Pictures of a study over what was varied: goodput against load, goodput and misses against a parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from ..serving_metrics import SeedSummary
from .picture import picture
from .summary import Group

Axes = Any
MISSES = {"ttft_met": "first token late", "missing_schedule": "a token after its schedule"}


def load_picture(groups: Sequence[Group], path: str | PathLike[str]) -> None:
    """A column a workload and target: good requests/s and their share, against the rate of arrivals, a line a policy.

    Bands: the standard deviation over seeds. Raises StorageError; needs matplotlib (extra `plot`).
    """
    panels: dict[str, dict[str, list[Group]]] = {}
    for group in groups:
        targets = ", ".join(f"{name.upper()} {group.option(name)}" for name in ("ttft", "tpot") if group.option(name))
        title = f"{group.workload.partition(':')[0]}, {targets}"
        panels.setdefault(title, {}).setdefault(group.policy, []).append(group)
    with picture(path, 4.5 * len(panels), 7.5) as figure:
        grid = figure.subplots(2, len(panels), squeeze=False, sharex="col")
        for (title, policies), (goodput, share) in zip(panels.items(), grid.T, strict=True):
            all_rates = sorted({_rate(group) for members in policies.values() for group in members})
            for policy, members in policies.items():
                ordered = sorted(members, key=_rate)
                rates = [_rate(group) for group in ordered]
                _line(goodput, rates, [group.spreads["goodput_per_s"] for group in ordered], policy)
                _line(share, rates, [group.spreads["good_share"] for group in ordered], policy, 100)
            goodput.plot(all_rates, all_rates, color="grey", ls=":", lw=1, label="all are good")
            goodput.set(title=title, ylabel="good requests/s", ylim=(0, None))
            share.set(xlabel="requests/s that arrive", ylabel="good requests, %", ylim=(-2, 102))
            goodput.legend(fontsize=8)


def sweep_picture(
    name: str, lines: dict[str, list[tuple[str, Group]]], path: str | PathLike[str], tick: Callable[[str], str] = str
) -> None:
    """lines: of each policy the values of parameter `name` and what came of them. Goodput, and shares that miss.

    Raises StorageError; needs matplotlib (extra `plot`).
    """
    with picture(path, 10.0, 4.2) as figure:
        goodput, misses = figure.subplots(1, 2)
        for index, (policy, members) in enumerate(lines.items()):
            places = list(range(len(members)))
            spreads = [group.spreads for _, group in members]
            _line(goodput, places, [spread["goodput_per_s"] for spread in spreads], policy, colour=f"C{index}")
            late = [_missed(spread["ttft_met"]) for spread in spreads]
            _line(misses, places, late, f"{policy}: {MISSES['ttft_met']}", 100, f"C{index}")
            after = [spread["missing_schedule"] for spread in spreads]
            _line(misses, places, after, f"{policy}: {MISSES['missing_schedule']}", 100, f"C{index}", "--")
            bad = [_missed(spread["good_share"]) for spread in spreads]
            _line(misses, places, bad, f"{policy}: not good", 100, f"C{index}", ":")
        labels = [tick(value) for value, _ in next(iter(lines.values()))]
        for axes in (goodput, misses):
            axes.set_xticks(range(len(labels)), labels)
            axes.set(xlabel=name)
            axes.legend(fontsize=7)
        goodput.set(ylabel="good requests/s", ylim=(0, None))
        misses.set(ylabel="requests, %", ylim=(-2, 102))


def _rate(group: Group) -> float:
    return float(group.option("rate").removesuffix("/s"))


def _missed(met: SeedSummary) -> SeedSummary:
    return met.model_copy(update={"mean": 1 - met.mean, "least": 1 - met.most, "most": 1 - met.least})


def _line(
    axes: Axes,
    x: Sequence[float],
    spreads: Sequence[SeedSummary],
    label: str,
    scale: float = 1.0,
    colour: str | None = None,
    style: str = "-",
) -> None:
    means = scale * np.asarray([spread.mean for spread in spreads])
    sd = scale * np.asarray([spread.sd or 0.0 for spread in spreads])
    (line,) = axes.plot(x, means, f"o{style}", ms=3, lw=1.4, label=label, color=colour)
    axes.fill_between(x, means - sd, means + sd, color=line.get_color(), alpha=0.15, lw=0)
