"""Cells: every point of a scene's box is in exactly one, and its box says which points those are."""

import numpy as np

from chunkfit.engine.config import PRESETS
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN, cpu_domain
from chunkfit.profiler.sampling import draw
from chunkfit.profiler.traffic import DIVISIONS, NEAR, Cells
from chunkfit.tables.batch import SCENES, Scene
from chunkfit.tables.domain import Domain

CELLS = Cells(SYNTHETIC_DOMAIN)


def test_the_ends_of_every_box_lie_in_their_cell():
    for domain in (SYNTHETIC_DOMAIN, cpu_domain(PRESETS["tiny"])):
        cells = Cells(domain)
        boxes = [cells.box(cell) for cell in range(cells.count)]
        # A narrow axis has cells without a whole number in them.
        held = [cell for cell, (low, high) in enumerate(boxes) if all(a <= b for a, b in zip(low, high, strict=True))]
        assert len(held) > 0.9 * cells.count
        for end in (0, 1):
            assert cells.of(np.asarray([boxes[cell][end] for cell in held])).tolist() == held


def test_points_of_the_law_are_in_the_box_of_their_cell():
    points = draw(SYNTHETIC_DOMAIN, 600, (129,), 0).points
    for point, cell in zip(points.tolist(), CELLS.of(points).tolist(), strict=True):
        low, high = CELLS.box(cell)
        assert all(a <= x <= b for a, x, b in zip(low, point, high, strict=True)), CELLS.title(cell)


def test_titles_and_scenes():
    assert CELLS.count == 25 + 25 + 81
    assert [CELLS.scene(CELLS.first[scene]) for scene in SCENES] == list(SCENES)
    assert CELLS.title(0) == "decode n 1-2 k 16-55"
    assert CELLS.title(CELLS.count - 1) == "mixed n 26-128 k 1025-8192 c 162-2048 u 1626-16384"
    assert CELLS.box(CELLS.first[Scene.PREFILL]) == ((0, 0, 1, 0), (0, 0, 4, 64)), (
        "no prefix is in the cell of the shortest"
    )


def test_a_cell_is_near_those_that_share_a_face():
    corner, middle = CELLS.nearness[0], CELLS.nearness[CELLS.first[Scene.DECODE] + 12]
    assert DIVISIONS[Scene.DECODE] == 5
    assert (corner.sum(), middle.sum()) == (1 + 2 * NEAR, 1 + 4 * NEAR)
    assert (CELLS.nearness == CELLS.nearness.T).all()


def test_a_domain_without_prefixes_has_cells_too():
    domain = Domain(
        max_decodes=4,
        max_context_tokens=64,
        max_chunk_tokens=8,
        max_prefix_tokens=0,
        max_batch_tokens=12,
        kv_tokens=512,
        context_length=64,
    )
    cells = Cells(domain)
    points = draw(domain, 24, (), 0).points
    assert set(cells.scenes[cells.of(points)].tolist()) == {0, 1, 2}
