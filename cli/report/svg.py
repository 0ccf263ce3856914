"""A matplotlib figure as inline SVG: in the page's own ink, with ids that no other figure of the page has."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from io import StringIO
from typing import Any

INK = "#0a0b0c"  # becomes the text colour of the page, whatever the reader's theme
WIDTH_INCHES = 10.0


def drawn(name: str, alt: str, height: float, draw: Callable[[Any], None]) -> str:
    """What `draw` puts on a new figure of `height` inches, as an <svg> element. Needs matplotlib (extra `plot`).

    name: prefix of every id in it. alt: for who cannot see it. The same input gives the same text.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color")
    style: Any = dict.fromkeys(ink, INK) | {
        "svg.fonttype": "none",  # text stays text: small, searchable, in the page's size
        "svg.hashsalt": name,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "legend.frameon": False,
        "grid.alpha": 0.15,
        "axes.grid": True,
        "axes.axisbelow": True,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return inlined(text.getvalue(), name, alt)


def inlined(svg: str, name: str, alt: str) -> str:
    """An SVG document as an element of an HTML page: no prolog, ids prefixed, INK as currentColor."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    body = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', body)
    body = re.sub(r"<svg\b", f'<svg role="img" aria-label="{escape(alt)}"', body, count=1)
    return body.replace(INK, "currentColor")
