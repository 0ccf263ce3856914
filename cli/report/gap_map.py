"""The majorant gap of a scene on two axes: the largest over the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import SCENE_AXES
from .evidence import Evidence

SHOWN = {  # down, across
    Scene.DECODE: SCENE_AXES[Scene.DECODE],
    Scene.PREFILL: SCENE_AXES[Scene.PREFILL],
    Scene.MIXED: ("decodes", "chunk_tokens"),
}
LABELS = {
    "decodes": "decodes n",
    "context_tokens": "mean context k",
    "prefix_tokens": "prefix u",
    "chunk_tokens": "chunk tokens c",
}


@dataclass(frozen=True, slots=True)
class GapMap:
    """percent and measured have the shape (down, across); nodes counts those behind the cells."""

    scene: Scene
    down: tuple[str, tuple[int, ...]]
    across: tuple[str, tuple[int, ...]]
    percent: NDArray[np.float64]
    measured: NDArray[np.bool_]
    nodes: int


def flattened(evidence: Evidence, scene: Scene) -> GapMap:
    """Needs the fit done again (`evidence.repeat`)."""
    assert evidence.repeat is not None
    gaps, measured = evidence.repeat.gaps[scene], evidence.arrays.measured[scene]
    names = SCENE_AXES[scene]
    others = tuple(i for i, name in enumerate(names) if name not in SHOWN[scene])
    (down, across), axes = SHOWN[scene], evidence.arrays.axes
    return GapMap(
        scene,
        (LABELS[down], axes.knots(down)),
        (LABELS[across], axes.knots(across)),
        100 * gaps.max(axis=others),
        np.asarray(measured.any(axis=others)),
        gaps.size,
    )
