"""The picture of table trust: bars are good requests by P99 gap, dots their seeds, lines the same by mean gap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .trust import SURFACES, Shown

COLOURS = {"expected": "#c1440e", "bound": "#1b5e8c"}
BAR = 0.36
ENOUGH = 9  # percent: a number fits into the bar


def draw(found: Sequence[Shown], path: Path) -> None:
    """One panel a workload, one group a table; a PNG of the same bytes for the same figures."""
    panels = list(dict.fromkeys(each.workload for each in found))
    tables = {panel: list(dict.fromkeys(s.table for s in found if s.workload == panel)) for panel in panels}
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False, width_ratios=[len(t) for t in tables.values()])[
        0
    ]
    for axis, panel in zip(axes, panels, strict=True):
        for place, table in enumerate(tables[panel]):
            for surface, shift in zip(SURFACES, (-BAR / 2, BAR / 2), strict=True):
                by_criterion = {
                    s.criterion: s.percent for s in found if (s.workload, s.table, s.surface) == (panel, table, surface)
                }
                bar(axis, place + shift, by_criterion["per_token"], by_criterion["mean_gap"], COLOURS[surface])
        axis.set_xticks(
            range(len(tables[panel])), [name.replace(" by ", "\nby ").replace(", ", ",\n") for name in tables[panel]]
        )
        axis.set_title(panel.replace(", synthetic", "\nsynthetic"), fontsize=10)
        axis.set_ylim(0, 104)
        axis.grid(axis="y", alpha=0.3, zorder=0)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("good requests by P99 gap, %")
    figure.legend(
        [
            Patch(color=COLOURS["expected"]),
            Patch(color=COLOURS["bound"]),
            Line2D([], [], color="black", linewidth=1.8),
            Line2D([], [], marker="o", markersize=3, color="white", markeredgecolor="black", linestyle=""),
        ],
        ["table read as expected time", "table read as 99% bound", "judged by mean gap instead of P99 gap", "one seed"],
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize=9,
    )
    figure.suptitle(
        "One policy (sloweave) on one device: requests served in time, by what its cost table says", fontsize=12
    )
    figure.savefig(path, dpi=110, metadata={"Software": None})


def bar(axis: Axes, place: float, good: Sequence[float], by_mean: Sequence[float], colour: str) -> None:
    mean, mean_gap = sum(good) / len(good), sum(by_mean) / len(by_mean)
    axis.bar(place, mean, BAR - 0.03, color=colour, zorder=2)
    axis.plot([place - BAR / 2, place + BAR / 2], [mean_gap, mean_gap], color="black", linewidth=1.8, zorder=4)
    spread = [place + 0.2 * (i / max(1, len(good) - 1) - 0.5) for i in range(len(good))]
    axis.plot(spread, good, "o", color="white", markeredgecolor="black", markersize=3, markeredgewidth=0.5, zorder=3)
    inside = mean > ENOUGH
    axis.annotate(
        f"{mean:.0f}",
        (place, 0 if inside else max(good)),
        xytext=(0, 3 if inside else 4),
        textcoords="offset points",
        ha="center",
        color="white" if inside else "black",
        fontsize=9,
        zorder=5,
    )
