"""One PNG: the object-oriented interface of matplotlib, without a display or global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from os import PathLike
from typing import Any

from ...files.writing import write_atomically


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
