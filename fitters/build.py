"""Fit rows -> expected time and noise scale of a table; with margins -> its bound. Certificates come after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..profiler.microbench.results import MicrobenchV1
from ..tables.arrays import TableArrays
from ..tables.batch import Scene
from ..tables.closure import monotone_majorant
from ..tables.domain import Domain
from ..tables.grid import Axes, Ladder, Points, Surface, nearest_ticks, ticks_up, to_ms
from ..tables.support import Support
from .estimators.estimator import Estimator, SceneModel
from .estimators.registry import estimators
from .knots import axes_for, ladder_for
from .node_residuals import SceneGrid
from .noise import NoiseScale
from .rows import Rows, at_most, point_medians
from .select import Selection, select
from .steps import FoundStep, find_steps
from .surfaces import SceneSurfaces, scene_surfaces

MOST_FITTED_POINTS = 20_000  # that an estimator is fitted to, drawn at random; node residuals use all points
FINE = 1 << 12  # a noise scale of a minute still fits
TICK_ALLOWANCE = 8  # the ladder's rounding raises E by at most 4 ticks before the multiplier: the bound gets more


@dataclass(frozen=True, slots=True)
class Built:
    """Surfaces of every scene that has rows, the models they came from, and where rows were measured."""

    domain: Domain
    support: Support | None
    axes: Axes
    ladders: Mapping[Scene, Ladder]
    steps: tuple[int, ...]
    surfaces: Mapping[Scene, SceneSurfaces]
    models: Mapping[Scene, SceneModel]

    @property
    def expected(self) -> dict[Scene, Surface]:
        return {scene: surfaces.expected for scene, surfaces in self.surfaces.items()}

    def expected_and_scale(self, points: Points) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(E, noise scale) of each point in ms, (points,): read as the table will be read.

        A reading rounds up to whole ticks. The margin multiplies the scale, by a hundred where a few stalls set it, and
        would multiply its rounding. So the scale is read in FINE parts of a tick.
        """
        fine = {
            scene: Surface(surfaces.scale.ladder * FINE, surfaces.scale.base * FINE)
            for scene, surfaces in self.surfaces.items()
        }
        expected_ms, fine_ms = self._arrays(fine).read(points)
        return expected_ms, fine_ms / FINE

    def unclosed(self, multipliers: Mapping[Scene, float], factor: float) -> dict[Scene, Surface]:
        """(E + multiplier * scale) * factor at every node, rounded up, before it is ordered.

        A scene without a multiplier takes the largest.
        """
        bounds = {}
        for scene, surface in self.surfaces.items():
            m = multipliers.get(scene, max(multipliers.values()))
            ladder = ticks_up((to_ms(surface.expected.ladder) + m * to_ms(surface.scale.ladder)) * factor)
            base = ticks_up((to_ms(surface.expected.base) + m * to_ms(surface.scale.base)) * factor)
            bounds[scene] = Surface(np.maximum(ladder, 0) + TICK_ALLOWANCE, np.maximum(base, 0))
        return bounds

    def closed(self, unclosed: Mapping[Scene, Surface]) -> TableArrays:
        """E, and the bound in order."""
        return self._arrays(monotone_majorant(self.axes, self.ladders, self.expected, unclosed))

    def raw(self, unclosed: Mapping[Scene, Surface]) -> TableArrays:
        """E and bound before they are ordered: the difference is the cost of monotonicity."""
        raw = {
            scene: Surface(nearest_ticks(surfaces.raw.ladder), nearest_ticks(surfaces.raw.base))
            for scene, surfaces in self.surfaces.items()
        }
        return replace(self._arrays(unclosed), expected=raw)

    def _arrays(self, bound: Mapping[Scene, Surface]) -> TableArrays:
        measured = {scene: surfaces.raw.base_measured for scene, surfaces in self.surfaces.items()}
        return TableArrays(self.axes, self.ladders, self.expected, bound, measured, self.domain, self.support)


def build(
    rows: Rows,
    domain: Domain,
    known_steps: Sequence[int],
    fitter: str,
    operators: MicrobenchV1 | None = None,
    support: Support | None = None,
) -> tuple[Built, Selection, list[FoundStep]]:
    """The best table of `fitter` (an estimator's name, or "auto"), its selection, and the steps found in `rows`.

    operators: microbenchmarks, for the fitter roofline. Raises UsageError for an unknown fitter, FitError where it
    cannot fit.
    """
    steps, new_steps = with_found_steps(rows, domain, known_steps)
    competing = estimators(fitter, operators)
    selection = select(competing, rows, ladders_of(rows, domain, steps))
    winner = selection.winner
    built = build_chosen(rows, domain, steps, competing[winner.name], selection.noise, support)
    return built, selection, new_steps


def build_chosen(
    rows: Rows,
    domain: Domain,
    steps: Sequence[int],
    estimator: Estimator,
    noise: NoiseScale,
    support: Support | None = None,
) -> Built:
    """The table of one estimator, with known steps and a fitted noise scale. Raises FitError."""
    axes, ladders = axes_for(domain, rows.points), ladders_of(rows, domain, steps)
    models = estimator(at_most(rows, MOST_FITTED_POINTS), ladders)
    medians = point_medians(rows)
    surfaces = {
        scene: scene_surfaces(SceneGrid(axes, scene, ladder, steps), models[scene], medians.scene(scene), noise)
        for scene, ladder in ladders.items()
    }
    return Built(domain, support, axes, ladders, tuple(steps), surfaces, models)


def with_found_steps(rows: Rows, domain: Domain, known: Sequence[int]) -> tuple[tuple[int, ...], list[FoundStep]]:
    """Totals n + c of all steps, known and found in `rows`; and the evidence of the found ones."""
    new_steps = find_steps(rows, ladders_of(rows, domain, known), known)
    return tuple(sorted({*known, *(step.total for step in new_steps)})), new_steps


def ladders_of(rows: Rows, domain: Domain, steps: Sequence[int]) -> dict[Scene, Ladder]:
    """A ladder for every scene that has rows."""
    return {scene: ladder_for(domain, scene, steps) for scene in rows.scenes()}
