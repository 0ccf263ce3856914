"""Picture of a results file: operators under their roofline, and the token-parallel curve with its ridge."""

from __future__ import annotations

from io import BytesIO
from os import PathLike
from typing import Any

import numpy as np

from ...files.writing import write_atomically
from .results import MicrobenchV1, OperatorRowV1


def save_plot(result: MicrobenchV1, path: str | PathLike[str]) -> None:
    """Write a PNG, whole or not at all. Raises StorageError; needs matplotlib (extra `plot`)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # The object-oriented interface: no display, no global state.
    figure = Figure(figsize=(12, 5), layout="constrained")
    FigureCanvasAgg(figure)
    roofline, curve = figure.subplots(1, 2)
    _roofline(roofline, result)
    _curve(curve, result)
    figure.suptitle(result.fingerprint.title())
    png = BytesIO()
    figure.savefig(png, format="png", dpi=120)
    write_atomically(path, png.getvalue())


def _roofline(axes: Any, result: MicrobenchV1) -> None:
    families: dict[str, list[OperatorRowV1]] = {}
    for row in result.rows:
        if row.flops:
            families.setdefault(row.family, []).append(row)
    intensities = [row.flops / row.bytes_moved for rows in families.values() for row in rows]
    x = np.geomspace(min(intensities), max(intensities), 100)
    limits = result.ceilings
    axes.loglog(x, np.minimum(x * limits.copy_bytes_per_s, limits.flops_per_s) / 1e12, "k-", label="measured ceilings")
    for family, rows in families.items():
        points = [(row.flops / row.bytes_moved, row.flops_per_s / 1e12) for row in rows]
        axes.loglog(*zip(*points, strict=True), ".", label=family)
    axes.set(xlabel="FLOPs per byte", ylabel="TFLOP/s, cold median", title="operators")
    axes.legend()


def _curve(axes: Any, result: MicrobenchV1) -> None:
    rows = [row for row in result.rows if row.family == "token_parallel"]
    tokens = np.asarray([row.sizes["tokens"] for row in rows])
    axes.loglog(tokens, [row.p50_ms for row in rows], "o-", label="cold P50")
    slow = [(row.sizes["tokens"], row.p99_ms) for row in rows if row.p99_ms is not None]
    if slow:
        axes.loglog(*zip(*slow, strict=True), "^:", label="cold P99")
    ridge = result.ridge
    if ridge.tokens is not None:
        x = np.geomspace(tokens[0], tokens[-1], 200)
        axes.loglog(x, ridge.level_ms + ridge.ms_per_token * np.maximum(0, x - ridge.tokens), "k--", label="two pieces")
        axes.axvline(ridge.tokens, color="grey", label=f"ridge {ridge.tokens:.3g}")
        if ridge.low is not None and ridge.high is not None:
            axes.axvspan(ridge.low, ridge.high, color="grey", alpha=0.2)
    if ridge.balance_tokens:
        axes.axvline(ridge.balance_tokens, color="grey", ls=":", label=f"balance {ridge.balance_tokens:.3g}")
    axes.set(xlabel="tokens n + c", ylabel="ms of one layer, without attention", title=ridge.finding)
    axes.legend()
