"""A real, small measurement: what is in the file, what the time budget leaves out, what a reader refuses."""

import json

import pytest

from chunkfit.engine import PRESETS
from chunkfit.files.errors import DeviceUnavailableError, ProfileFormatError, UsageError
from chunkfit.profiler.microbench import results
from chunkfit.profiler.microbench.measure import LEAST_REPLAYS, MicrobenchOptions, microbench
from chunkfit.profiler.microbench.operator_sizes import parts_of

CONFIG = PRESETS["tiny"]


def test_rows_hold_their_figures(measured):
    result, said = measured
    limits = result.ceilings
    assert {row.family for row in result.rows} == {
        "ceiling", "gemm", "decode_attention", "chunk_attention", "pointwise", "token_parallel",
    }  # fmt: skip
    for row in result.rows:
        assert row.n >= LEAST_REPLAYS
        assert (row.p99_ms is None) == (row.n < 100)
        assert row.p99_ms is None or row.p99_ms >= row.p50_ms
        assert row.bytes_per_s == pytest.approx(row.bytes_moved / row.p50_ms * 1e3)
        allowed = {
            "bandwidth": row.bytes_moved / limits.copy_bytes_per_s,
            "matrix_rate": row.flops / limits.flops_per_s,
        }
        assert allowed[row.ceiling] == max(allowed.values())
        assert row.fraction == pytest.approx(allowed[row.ceiling] * 1e3 / row.p50_ms)
    assert max(row.n for row in result.rows) == 110
    assert max(row.fraction for row in result.rows if row.name == "copy") == pytest.approx(1)
    assert max(row.fraction for row in result.rows if row.name == "matrix") == pytest.approx(1)
    assert [done for done, _, _ in said] == list(range(len(result.rows) + 1))
    assert not result.skipped
    assert result.fingerprint.device_kind == "cpu"
    assert result.seconds < 60


def test_the_ridge_is_that_of_the_token_parallel_rows(measured):
    result, _ = measured
    assert result.ridge.finding
    assert result.ridge.level_ms > 0
    counts = [row.sizes["tokens"] for row in result.rows if row.family == "token_parallel"]
    assert counts == [1, 4, 16, 64, 128]
    assert result.ridge.tokens is None or 1 < result.ridge.tokens < 128


def test_whole_iterations_less_their_operators(measured, small_sizes):
    result, _ = measured
    rows = {row.key: row for row in result.rows}
    assert [(w.decodes, w.context_tokens, w.chunk_tokens, w.prefix_tokens) for w in result.whole] == list(
        small_sizes.batches
    )
    for batch, whole in zip(small_sizes.batches, result.whole, strict=True):
        parts = parts_of(CONFIG, batch)
        assert whole.operators_cold_ms == pytest.approx(sum(times * rows[key].p50_ms for times, key in parts))
        assert whole.operators_warm_ms == pytest.approx(sum(times * rows[key].warm_p50_ms for times, key in parts))
        assert whole.rest_ms == pytest.approx(whole.p50_ms - whole.operators_cold_ms)
        assert whole.event_p50_ms is None
        assert whole.eager_p50_ms is None
        assert 0 < whole.fastest_ms <= whole.p50_ms


def test_a_spent_budget_leaves_out_operators_and_says_so(small_sizes):
    """The ceilings and the ridge are always there."""
    result = microbench(MicrobenchOptions("cpu", "tiny", 1e-6, sizes=small_sizes))
    assert {row.family for row in result.rows} == {"ceiling", "token_parallel"}
    assert result.whole == []
    reasons = {skipped.name: skipped.reason for skipped in result.skipped}
    assert reasons["down"] == "the time budget was spent"
    assert "was not timed" in reasons["whole iteration"]


def test_the_file_reads_back_and_is_strict(measured, tmp_path):
    result, _ = measured
    path = tmp_path / "m.json"
    result.save(path)
    assert results.load(path) == result
    content = json.loads(path.read_text())
    assert (content["format"], content["schema_version"], content["command"]) == ("chunkfit.microbench", 1, "a test")

    def broken(change):
        edited = json.loads(path.read_text())
        change(edited)
        (tmp_path / "edited.json").write_text(json.dumps(edited))
        with pytest.raises(ProfileFormatError) as error:
            results.load(tmp_path / "edited.json")
        return str(error.value)

    assert "$.schema_version" in broken(lambda c: c.update(schema_version=2))
    assert "$.extra" in broken(lambda c: c.update(extra=1))
    assert "$.rows[0].n" in broken(lambda c: c["rows"][0].update(n=2.5))
    assert "$.rows[1].p50_ms" in broken(lambda c: c["rows"][1].update(p50_ms=-1.0))
    assert "$.ceilings.flops_per_s" in broken(lambda c: c["ceilings"].pop("flops_per_s"))
    (tmp_path / "cut.json").write_text(path.read_text()[:500])
    with pytest.raises(ProfileFormatError, match="measure again"):
        results.load(tmp_path / "cut.json")
    with pytest.raises(ProfileFormatError, match="cannot be read"):
        results.load(tmp_path / "absent.json")


def test_what_cannot_be_meant_or_had():
    import torch

    for minutes in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="minutes"):
            microbench(MicrobenchOptions("cpu", "tiny", minutes))
    with pytest.raises(UsageError, match="gpt-9"):
        microbench(MicrobenchOptions("cpu", "gpt-9", 1))
    if not torch.cuda.is_available():
        with pytest.raises(DeviceUnavailableError, match="cuda"):
            microbench(MicrobenchOptions("cuda", "tiny", 1))


@pytest.mark.gpu
def test_on_a_gpu(small_sizes):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    result = microbench(MicrobenchOptions("cuda", "tiny", 0.5, sizes=small_sizes))
    assert result.machine.cold_check.cold
    assert all(whole.event_p50_ms is not None for whole in result.whole)
    assert all(whole.eager_p50_ms is not None for whole in result.whole)
    assert max(row.fraction for row in result.rows) < 2
