"""The page's figures. Each function draws one on an empty matplotlib figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from .curves import Panel
from .evidence import Misses, Reading
from .gap_map import GapMap
from .svg import INK

Draw = Callable[[Any], None]

# Seen on white and on black, and apart for the colour-blind (after Okabe & Ito 2008).
BLUE, ORANGE, GREEN, PURPLE = "#2f86c8", "#e08214", "#1a9870", "#b565a7"
COLOURS = {Scene.DECODE: BLUE, Scene.PREFILL: GREEN, Scene.MIXED: PURPLE}
WIDE = 3.0  # ratio of the ends of an axis from which it is logarithmic
MOST_DOTS = 800  # of a panel; a page stays small, and rows above the bound are never left out


def thinned(reading: Reading) -> Reading:
    """At most MOST_DOTS rows, evenly spaced, and every row above the bound."""
    if len(reading.rows) <= MOST_DOTS:
        return reading
    keep = reading.above.copy()
    keep[np.linspace(0, len(keep) - 1, MOST_DOTS).astype(int)] = True
    return reading.where(keep)


def counted(reading: Reading) -> str:
    """n of a panel, and how many of them are drawn."""
    shown = len(thinned(reading).rows)
    return f"n = {len(reading.rows):,}" + ("" if shown == len(reading.rows) else f", {shown:,} drawn")


def curves(panels: Sequence[Panel]) -> Draw:
    """T against c: expected and bound of one state, raw rows each with the span of its own reading."""

    def draw(figure: Any) -> None:
        axes = figure.subplots(-(-len(panels) // 2), 2, squeeze=False).ravel()
        for axis, panel in zip(axes, panels, strict=False):
            reading = thinned(panel.reading)
            column = 0 if panel.axis == "decodes" else 2
            x = reading.rows.points[:, column]
            axis.vlines(x, reading.expected_ms, reading.bound_ms, color=INK, alpha=0.22, linewidth=1)
            axis.fill_between(panel.x, panel.expected_ms, panel.bound_ms, color=BLUE, alpha=0.2, linewidth=0)
            axis.plot(panel.x, panel.expected_ms, color=BLUE, linewidth=1.4, label="expected, one state")
            axis.plot(panel.x, panel.bound_ms, color=BLUE, linewidth=1, linestyle="--", label="bound, one state")
            _dots(axis, x, reading.rows.latency_ms, reading)
            name = "decodes n" if column == 0 else "chunk tokens c"
            axis.set(xlabel=name, ylabel="ms", title=f"{panel.title} ({counted(panel.reading)})")
            _log(axis.xaxis, axis.set_xscale)
            _log(axis.yaxis, axis.set_yscale)
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        _legend(figure, axes[: len(panels)])

    return draw


def residuals(readings: Sequence[tuple[Scene, Reading]]) -> Draw:
    """T / E and U / E against n + c, a panel a scene."""

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(readings), sharey=True, squeeze=False).ravel()
        for axis, (scene, whole) in zip(axes, readings, strict=True):
            reading = thinned(whole)
            totals = reading.rows.points[:, 0] + reading.rows.points[:, 2]
            axis.plot(totals, reading.bound_ms / reading.expected_ms, "_", color=BLUE, label="bound of the row")
            _dots(axis, totals, reading.rows.latency_ms / reading.expected_ms, reading)
            axis.axhline(1, color=INK, linewidth=0.8)
            axis.set(xlabel="batch tokens n + c", title=f"{scene.value} ({counted(whole)})")
            _log(axis.xaxis, axis.set_xscale)
        low, high = axes[0].get_ylim()
        if high > WIDE * max(low, 1 / WIDE):
            _log(axes[0].yaxis, axes[0].set_yscale)
        axes[0].set_ylabel("over expected")
        _legend(figure, axes)

    return draw


def coverage(found: Sequence[Misses], promised: float | None) -> Draw:
    """Rows above the bound in percent with their intervals, one line each."""

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        for i, miss in enumerate(found):
            share = 100 * miss.above / miss.rows
            # The share of what was promised: an interval wholly above it contradicts the promise.
            colour = ORANGE if promised is not None and miss.low > 1 - promised else BLUE
            axis.plot([100 * miss.low, 100 * miss.high], [i, i], color=colour, linewidth=2.2)
            axis.plot(share, i, "o", color=colour, markersize=5)
        if promised is not None:
            axis.axvline(100 * (1 - promised), color=INK, linewidth=1, linestyle=":")
        axis.set_yticks(range(len(found)), [f"{m.label}: {m.above} of {m.rows:,}" for m in found])
        axis.invert_yaxis()
        axis.set_xlim(left=0)
        axis.set(xlabel="rows above the bound, %, with 95% Clopper-Pearson intervals; dotted: allowed")

    return draw


def gap_map(maps: Sequence[GapMap]) -> Draw:
    """A map per scene, one colour scale for all; a dot where there is data."""
    from matplotlib import colormaps

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(maps), squeeze=False).ravel()
        highest = max(float(m.percent.max()) for m in maps) or 1.0
        # Few colours: a colour bar of many is an image, and the page takes none.
        colours = colormaps["cividis"].resampled(10)
        for axis, shown in zip(axes, maps, strict=True):
            (down, rows), (across, columns) = shown.down, shown.across
            edges = np.arange(len(columns) + 1), np.arange(len(rows) + 1)
            mesh = axis.pcolormesh(*edges, shown.percent, cmap=colours, vmin=0, vmax=highest)
            y, x = np.nonzero(shown.measured)
            axis.plot(x + 0.5, y + 0.5, "o", color="white", markeredgecolor="black", markeredgewidth=0.6, markersize=4)
            axis.set_xticks(np.arange(len(columns)) + 0.5, [f"{knot:,}" for knot in columns], rotation=60)
            axis.set_yticks(np.arange(len(rows)) + 0.5, [f"{knot:,}" for knot in rows])
            axis.grid(False)
            axis.set(xlabel=across, ylabel=down, title=f"{shown.scene.value} (n = {shown.nodes:,} nodes)")
        figure.colorbar(mesh, ax=list(axes), label="gap, %", shrink=0.9)

    return draw


def candidates(scores: Sequence[tuple[str, dict[str, float]]], winner: str) -> Draw:
    """Held-out pinball loss at 0.5 by kind of fold, a line per candidate."""

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        folds = list(dict.fromkeys(name for _, losses in scores for name in losses))
        for fold, colour, marker in zip(folds, (BLUE, ORANGE, GREEN), "osD", strict=False):
            known = [(losses[fold], i) for i, (_, losses) in enumerate(scores) if fold in losses]
            x, y = zip(*known, strict=True)
            axis.plot(x, y, marker, color=colour, markersize=6, label=f"folds of {fold}")
        axis.set_yticks(range(len(scores)), [f"{name} (chosen)" if name == winner else name for name, _ in scores])
        axis.invert_yaxis()
        _log(axis.xaxis, axis.set_xscale)
        axis.set(xlabel="held-out pinball loss at 0.5, % (less is better)")
        _legend(figure, [axis])

    return draw


def drift(sessions: Sequence[tuple[str, NDArray[np.int64], NDArray[np.float64]]]) -> Draw:
    """Sentinel times over the median of all of them, in percent, in the order of each session."""

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(sessions), sharey=True, squeeze=False).ravel()
        middle = float(np.median(np.concatenate([ms for *_, ms in sessions])))
        for axis, (name, order, ms) in zip(axes, sessions, strict=True):
            percent = 100 * (ms / middle - 1)
            axis.plot(order, percent, ".", color=BLUE, markersize=5)
            axis.axhline(float(np.median(percent)), color=BLUE, linewidth=1.2)
            axis.axhline(0, color=INK, linewidth=0.8)
            axis.set(xlabel="place in the session", title=f"{name} (n = {len(ms):,})")
        axes[0].set_ylabel("% from the median of all")

    return draw


def _dots(axis: Any, x: NDArray[np.int64], y: NDArray[np.float64], reading: Reading) -> None:
    """Raw rows: within the bound, above it, and measured under a throttle."""
    above, flagged = reading.above, reading.rows.flagged
    axis.plot(x[~above], y[~above], "o", color=GREEN, markersize=2.6, alpha=0.7, label="row")
    if above.any():
        axis.plot(x[above], y[above], "D", color=ORANGE, markersize=5, label="row above its bound")
    if flagged.any():
        axis.plot(x[flagged], y[flagged], "o", color=INK, markersize=7, fillstyle="none", label="under a throttle")


def _log(axis: Any, set_scale: Callable[[str], None]) -> None:
    """A log scale with plain numbers at 1, 2 and 5, thinned over many decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    set_scale("log")
    low, high = axis.get_view_interval()
    subs = (1.0, 2.0, 5.0) if high / max(low, 1e-9) < 200 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend(figure: Any, axes: Sequence[Any]) -> None:
    """One legend for all panels, below them."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
