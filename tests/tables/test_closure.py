"""The closures: order, least change, data before model."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_tables import random_arrays, random_table

from chunkfit.tables.batch import Scene
from chunkfit.tables.check import order_findings
from chunkfit.tables.closure import monotone_majorant, seams
from chunkfit.tables.grid import Surface


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_closed_bounds_keep_the_order_and_never_fall_below_what_they_close(seed):
    arrays = random_arrays(seed)
    rng = np.random.default_rng(seed)
    raw = {
        scene: Surface(rng.integers(0, 500, s.ladder.shape), rng.integers(0, 500, s.base.shape))
        for scene, s in arrays.expected.items()
    }
    closed = monotone_majorant(arrays.axes, arrays.ladders, arrays.expected, raw)
    for scene, surface in closed.items():
        for part in ("ladder", "base"):
            assert (getattr(surface, part) >= getattr(raw[scene], part)).all()
            assert (getattr(surface, part) >= getattr(arrays.expected[scene], part)).all()
    assert all((seam.shortage <= 0).all() for seam in seams(arrays.axes, arrays.ladders, closed))


def test_a_scene_that_was_not_measured_has_no_seam():
    arrays = random_arrays(1)
    only = {Scene.MIXED: arrays.bound[Scene.MIXED], Scene.DECODE: arrays.bound[Scene.DECODE]}
    assert [seam.lower for seam in seams(arrays.axes, arrays.ladders, only)] == [Scene.DECODE]


def test_self_check_names_a_seam_that_is_short():
    for seed in range(50):
        arrays = random_table(seed).arrays
        mixed = arrays.bound[Scene.MIXED]
        arrays.bound[Scene.MIXED] = Surface(
            np.zeros_like(mixed.ladder), np.zeros_like(mixed.base)
        )  # below every bound of a batch with less work
        findings = [f for f in order_findings(arrays) if f.where.startswith("seam")]
        if arrays.bound[Scene.DECODE].ladder.max() > 0:
            assert any("seam decode -> mixed at (n " in f.where for f in findings)
