"""A pass seen by several ranks, rows written twice and a log joined to itself are one draw each."""

import json

import numpy as np
import pytest

from chunkfit.files.records import SkippedRows
from chunkfit.profiler.importers.copies import COPY, RANK, independent
from chunkfit.profiler.importers.ingest import ingest
from chunkfit.profiler.importers.samples import LoggedIteration, ReadOptions

COLUMNS = ReadOptions({"n": "n", "k": "k", "c": "c", "u": "u", "latency": "ms"}, unit="ms")


def iterations(count, seed=1, digits=5, batches=400, stamps=False):
    """Iterations of few batches, so that ties of rounded times occur."""
    rng, now, found = np.random.default_rng(seed), 0.0, []
    for _ in range(count):
        n = int(rng.integers(1, batches))
        ms = round(float((10 + 0.02 * n) * rng.lognormal(0, 0.01)), digits)
        now += ms / 1000
        found.append(LoggedIteration.of_totals(n, 500, 0, 0, ms, started_s=now if stamps else 0.0))
    return found


def reduced(samples):
    left_out = SkippedRows()
    return independent(samples, left_out), left_out.counts()


@pytest.mark.parametrize("order", ["in a row", "one after the other", "shuffled"])
@pytest.mark.parametrize("stamps", [False, True])
def test_copies_are_counted_and_one_is_kept(order, stamps):
    once = iterations(600, stamps=stamps)
    thrice = [one for one in once for _ in range(3)] if order == "in a row" else once * 3
    if order == "shuffled":
        thrice = [thrice[i] for i in np.random.default_rng(2).permutation(len(thrice))]
    kept, counts = reduced(thrice)
    assert sorted(map(repr, kept)) == sorted(map(repr, once))
    assert counts == {COPY: 1200}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("digits", "batches"), [(5, 400), (2, 20), (1, 5), (0, 3)])
def test_ties_of_rounded_times_are_no_copies(seed, digits, batches):
    honest = iterations(2000, seed, digits, batches)
    assert reduced(honest) == (honest, {})


def test_equal_rows_at_different_times_are_no_copies():
    steady = [LoggedIteration.of_totals(8, 500, 0, 0, 10.0, started_s=1 + i / 100) for i in range(500)]
    assert reduced(steady) == (steady, {})


def test_rows_of_one_coarse_stamp_follow_each_other():
    """Stamps of whole seconds: 100 iterations of 10 ms share one."""
    coarse = [
        LoggedIteration.of_totals(1 + i % 64, 500, 0, 0, 10.0 + i * 1e-4, started_s=float(1 + i // 100))
        for i in range(2000)
    ]
    assert reduced(coarse) == (coarse, {})


@pytest.mark.parametrize("named", [True, False])
def test_of_the_ranks_of_a_pass_the_slowest_is_kept(named):
    rng, rows, slowest = np.random.default_rng(4), [], []
    for number, one in enumerate(iterations(300, stamps=True)):
        times = one.latency_ms * (1 + 0.01 * rng.random(8))
        for ms in times:
            key = number if named else None
            rows.append(
                LoggedIteration.of_totals(
                    one.n + int(rng.integers(-1, 2)) + 1, 500, 0, 0, ms, started_s=one.started_s, pass_key=key
                )
            )
        slowest.append(times.max())
    kept, counts = reduced(rows)
    assert [one.latency_ms for one in kept] == slowest
    assert counts == {RANK: 7 * 300}


def test_a_trace_of_eight_ranks_is_as_many_passes(tmp_path):
    rng, lines = np.random.default_rng(3), []
    for counter in range(60):
        for rank in range(8):
            work = {
                "num_prefill_requests": 0,
                "sum_prefill_tokens": 0,
                "sum_prefill_kv_tokens": 0,
                "num_decode_requests": 8 + int(rng.integers(-1, 2)),
                "sum_decode_kv_tokens": 4000,
                "var_decode_kv_tokens": 0.0,
            }
            fpm = {"version": 1, "dp_rank": rank, "counter_id": counter % 40, "wall_time": 0.01 + counter * 1e-5}
            event = {"schema": "dynamo.fpm.trace.v1", "observed_at_unix_ms": 1_764_550_000_000 + 11 * counter}
            lines.append(json.dumps({"event": event | {"fpm": fpm | {"scheduled_requests": work}}}))
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(lines) + "\n")
    found = ingest("dynamo-trace", path)
    assert len(found.profile) == 60  # the counter began again after 40
    assert found.profile.meta.imported.left_out == {RANK: 420}
    assert any(RANK in line for line in found.left_out)


def test_a_log_written_three_times_is_the_log(tmp_path):
    lines = [f"{one.n},500,0,0,{one.latency_ms}" for one in iterations(600)]
    for name, times in (("one", 1), ("thrice", 3)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["n,k,c,u,ms", *lines * times, ""]))
    one, thrice = (
        ingest("table", tmp_path / f"{name}.csv", COLUMNS, split="time").profile for name in ("one", "thrice")
    )
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column, thrice.columns[name])
    assert thrice.meta.imported.left_out == {COPY: 1200}
