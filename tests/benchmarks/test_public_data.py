"""The comparison on public data: splits, peers and scores on made data, and one small public set from end to end."""

import os
from pathlib import Path

import numpy as np
import public_data
import pytest
from public.contradictions import contradictions
from public.peers import PEERS
from public.predictions import Prediction, our_predictions, peer_prediction
from public.score import mean_score, scores
from public.sets import load, made_of
from public.splits import last_part, random_mixed, random_points, random_rows, replicates, third_values
from public.steps import falls

from chunkfit.fitters.estimators.registry import ESTIMATORS
from chunkfit.profiler.importers.samples import LoggedIteration
from chunkfit.tables.grid import scene_of

FOLDER = os.environ.get("CHUNKFIT_PUBLIC_DATA")
public = pytest.mark.skipif(FOLDER is None, reason="CHUNKFIT_PUBLIC_DATA is not set: no public logs here")


def line_ms(n, k, c):
    return 2 + 0.02 * n + 0.0001 * n * k + 0.03 * c


@pytest.fixture(scope="module")
def grid():
    """A grid of 6 x 5 mixed batches and its two edges, each timed twice; linear, without noise."""
    decodes, chunks, k = (0, 1, 2, 4, 8, 16, 32), (0, 16, 32, 64, 128, 256), 100
    samples = [
        LoggedIteration.of_totals(n, k, c, 0, line_ms(n, k if n else 0, c) * (1 + 1e-6 * repeat))
        for n in decodes
        for c in chunks
        for repeat in range(2)
        if n + c
    ]
    return made_of("grid", "rucnyz", samples, "iteration")


@pytest.mark.parametrize("split", [random_mixed, random_points, third_values, last_part, replicates, random_rows])
def test_a_split_is_its_seed_and_leaves_rows_to_learn_from(grid, split):
    held = split(grid.rows, 1)
    assert 0 < held.sum() < len(grid.rows)
    np.testing.assert_array_equal(held, split(grid.rows, 1))


def test_what_the_splits_hold_out(grid):
    rows = grid.rows
    third = third_values(rows, 1)
    assert set(scene_of(rows.points[third])) == {"mixed"}
    held = np.unique(rows.points[third, 2])
    assert 0 < len(held) < 3
    assert not set(held) & {16, 256}  # nor any row of a value that is held out is learnt from
    assert not np.isin(rows.points[~third & (scene_of(rows.points) == "mixed"), 2], held).any()
    for split in (random_points, random_mixed):
        assert not set(rows.point_id[split(rows, 0)]) & set(rows.point_id[~split(rows, 0)])
    assert set(rows.point_id[~replicates(rows, 0)]) == set(rows.point_id)
    assert np.diff(np.flatnonzero(last_part(rows, 0))).max() == 1


@pytest.mark.parametrize(
    ("peer", "percent"),
    [
        ("seven features", 1e-3),
        ("two lines", 1e-3),
        ("linear interpolation", 1e-3),
        ("random forest", 30),
        ("LightGBM", 30),
    ],
)
def test_a_peer_predicts_what_its_form_can_hold(grid, peer, percent):
    held = third_values(grid.rows, 1)
    found = peer_prediction(PEERS[peer], grid, held, 0)
    assert 100 * np.abs(found.expected_ms / found.latency_ms - 1).mean() < percent
    np.testing.assert_allclose(found.bounds_ms["x1.2"], 1.2 * found.expected_ms)


@pytest.mark.parametrize("peer", ["nearest", "linear interpolation"])
def test_a_repeated_batch_counts_once_with_its_median(peer):
    ms = [1.0, 9.0, 1.0, 5.0, 1.0, 5.0]
    samples = [LoggedIteration.of_totals(n, 8, c, 0, ms[i % 6]) for n in (4, 8) for c in (16, 32) for i in range(6)]
    data = made_of("log", "live", samples, "iteration", "time")
    assert data.rows.point_count == len(samples)
    assert PEERS[peer](data.rows)(data.rows.points) == pytest.approx(3.0)


def test_parts_add_their_fixed_costs_twice(grid):
    held = random_mixed(grid.rows, 0)
    found = peer_prediction(PEERS["sum of parts"], grid, held, 0)
    np.testing.assert_allclose(found.expected_ms - found.latency_ms, 2, rtol=1e-3)
    alone = scene_of(grid.rows.points) == "mixed"
    assert PEERS["sum of parts"](grid.rows.where(alone))(grid.rows.points[held]) == pytest.approx(np.nan, nan_ok=True)


def test_no_fold_is_asked_beyond_its_own_batches():
    """Nearest is off by 4 at most between these batches, and by 100 at the outermost where a fold has lost it."""
    times = {n: float(n) for n in (1, 2, 4, 8, 16, 32)} | {64: 3200.0}
    data = made_of("", "", [LoggedIteration.of_totals(n, 100, 0, 0, ms) for n, ms in times.items()], "iteration")
    held = data.rows.points[:, 0] == 8
    found = peer_prediction(PEERS["nearest"], data, held, 0)
    assert found.bounds_ms["margin"] / found.expected_ms <= 4
    predictions = our_predictions({"linear": ESTIMATORS["linear"]}, data, held, 0)
    assert "m = 4, needs 299; certifies 0.472" in predictions["auto"].note  # of six points less the two outermost


def test_our_table_beside_them(grid):
    fitters = {name: ESTIMATORS[name] for name in ("linear", "scene_experts")}
    predictions = our_predictions(fitters, grid, random_mixed(grid.rows, 0), 0)
    assert set(predictions) == {"auto", *fitters}
    found = predictions["auto"]
    score = scores([found])["margin"]
    assert score.mape_percent < 2
    assert score.falls_percent == 0
    assert set(score.falls) == {"decodes", "chunk"}
    assert "refused: m = " in found.note
    assert "needs 299; certifies 0." in found.note


def test_matched_bounds_cover_99_percent():
    t = np.arange(1.0, 201.0)
    of = {"margin": np.full(200, 100.0)}
    (score,) = scores([Prediction(t, t, of, {"chunk": (1, 10)}, t, of["margin"])]).values()
    assert score.factor == 1.98
    assert score.coverage == 0.5
    assert score.matched_ratio == pytest.approx((198 / t).mean())
    assert score.gap_percent == 0
    assert mean_score([score, score]).falls == {"chunk": (2, 20)}


def test_falling_steps_and_their_evidence(grid):
    assert falls(lambda points: -points[:, 2].astype(float), grid.rows, 0)["chunk"][0] > 0
    assert falls(lambda points: points.sum(axis=1).astype(float), grid.rows, 0)["decodes"][0] == 0
    assert contradictions(grid.rows) == []
    samples = [
        LoggedIteration.of_totals(n, 512, 0, 0, ms)
        for n, ms in ((16, 40.0), (16, 41.0), (32, 81.0), (32, 80.0), (64, 9.0))
    ]
    assert contradictions(made_of("", "", samples, "iteration").rows) == ["n 32 -> 64 at k 512: 80.5 -> 9 ms"]


@public
def test_one_public_set_from_end_to_end():
    sets = [data for data in load(Path(FOLDER) / "measurements", quick=True) if data.group == "splitwise token"]
    assert len(sets) == 4
    group, split = "splitwise token", "replicates"
    ours = public_data.done((group, split, 0, True), sets, {"scene_experts": ESTIMATORS["scene_experts"]})
    theirs = public_data.done((group, split, 0, False), sets)
    (score,), notes = ours["auto"][0].values(), ours["auto"][1]
    assert score.falls_percent == 0
    assert score.mape_percent < 5
    assert theirs["linear interpolation"][0]["x1.2"].rows == score.rows
    assert len(notes) == 4
    assert theirs["sum of parts"][0]["x1.2"].mape_percent == theirs["linear interpolation"][0]["x1.2"].mape_percent
