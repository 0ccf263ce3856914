"""Pictures (PNG) of simulated runs: latencies and chunks of single runs, goodput over load or over a parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from os import PathLike
from typing import Any

import numpy as np

from ...files.writing import write_atomically
from ..serving_metrics import TOLERANCE_MS, SeedSummary
from .cell import Played
from .runs import Group

Axes = Any
WINDOW = 120  # iterations that a timeline shows


def latency_picture(runs: Mapping[str, Played], title: str, path: str | PathLike[str]) -> None:
    """runs: by policy. Share of all requests within a time: first token, own P99 gap, mean gap; targets dashed.

    A line ends below 100% where requests have no such time: refused, or without a token.
    Raises StorageError; needs matplotlib (extra `plot`).
    """
    with picture(path, 13.0, 4.2) as figure:
        panels = figure.subplots(1, 3, sharey=True)
        for name, played in runs.items():
            requests, results = played.workload.requests, played.run.results
            ttft = results["first_token_ms"] - requests["arrival_ms"]
            for axes, values in zip(panels, (ttft, results["p99_gap_ms"], results["mean_gap_ms"]), strict=True):
                known = np.sort(values[np.isfinite(values) & (values > 0)])
                axes.step(known, 100 * np.arange(1, len(known) + 1) / len(values), where="post", lw=1.4, label=name)
        requests = next(iter(runs.values())).workload.requests
        for axes, target, label in zip(
            panels,
            ("ttft_ms", "tpot_ms", "tpot_ms"),
            ("TTFT", "P99 gap of a request", "mean gap of a request"),
            strict=True,
        ):
            known = np.unique(requests[target][np.isfinite(requests[target])])
            for value in known if len(known) <= 3 else ():
                axes.axvline(value, color="grey", ls="--", lw=1)
            axes.set(xlabel=f"{label}, ms", xlim=(0, None))
        panels[0].set(ylabel="requests, %", ylim=(0, 102))
        panels[0].legend(fontsize=8)
        figure.suptitle(title, fontsize=10)


def timeline_picture(runs: Mapping[str, Played], title: str, path: str | PathLike[str]) -> None:
    """runs: by policy, played with their logs. A row each, WINDOW iterations from the middle of the first one's run:

    prompt tokens of each iteration as bars, its time and the slack that it had as lines, red where it took more.
    Raises StorageError; needs matplotlib (extra `plot`).
    """
    log = next(iter(runs.values())).run.log
    shown = log[max(0, (len(log) - WINDOW) // 2) :][:WINDOW]
    start_ms, end_ms = shown["start_ms"][0], shown["start_ms"][-1] + shown["latency_ms"][-1]
    with picture(path, 12.0, 1.2 + 2.1 * len(runs)) as figure:
        rows = figure.subplots(len(runs), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
        times: Axes = None
        longest_ms = 0.0
        for tokens, (name, played) in zip(rows, runs.items(), strict=True):
            log = played.run.log
            shown = log[(log["start_ms"] >= start_ms) & (log["start_ms"] <= end_ms)]
            times = _timeline(tokens, shown, times)
            tokens.set_title(name, loc="left", fontsize=9)
            longest_ms = max(longest_ms, float(shown["latency_ms"].max(initial=0.0)))
        times.set_ylim(0, 1.3 * longest_ms)  # of all rows; the slack of a schedule may be far above
        rows[-1].set(xlabel="time of the run, s", xlim=(start_ms / 1000, end_ms / 1000))
        figure.suptitle(title, fontsize=10)
        figure.legend(*times.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)


def _timeline(tokens: Axes, log: Any, beside: Axes) -> Axes:
    """beside: the axis of times of the row above, whose scale this one shares. Returns the axis of times."""
    begin, took = log["start_ms"] / 1000, log["latency_ms"]
    tokens.bar(begin, log["chunk_tokens"], took / 1000, align="edge", color="C0", alpha=0.35, lw=0)
    tokens.set_ylabel("chunk tokens", color="C0")
    times = tokens.twinx()
    if beside is not None:
        times.sharey(beside)
    times.step(
        begin,
        log["slack_ms"],
        where="post",
        color="C2",
        lw=1.2,
        label="slack: time to the earliest deadline (not drawn where it is far above)",
    )
    times.step(begin, took, where="post", color="black", lw=1.0, label="iteration")
    late = took > log["slack_ms"] + TOLERANCE_MS  # nan without decodes: nobody is late
    times.plot(begin[late], took[late], "x", color="red", ms=5, label="took more than the slack")
    times.set(ylabel="ms")
    return times


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


@contextmanager
def picture(path: str | PathLike[str], width_in: float, height_in: float) -> Iterator[Any]:
    """A figure that is written, whole or not at all, where no error left it. Raises StorageError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    yield figure
    png = BytesIO()
    figure.savefig(png, format="png", dpi=120)
    write_atomically(path, png.getvalue())
