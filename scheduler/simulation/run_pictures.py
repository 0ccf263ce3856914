"""Pictures of single runs: TTFT and gaps of their requests, and the chunks that a policy chose against the slack."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from ..serving_metrics import TOLERANCE_MS
from .cell import Played
from .picture import picture

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
