"""The benchmarks of attention and of whole iterations: their arithmetic, and on this CPU from end to end."""

import json
import subprocess
import sys
from dataclasses import replace

import attention_vs_sdpa
import iteration_floors
import pytest
import torch
from torch.nn.attention import SDPBackend

from chunkfit.engine import PRESETS
from chunkfit.profiler.microbench.cold_timing import ColdTimer
from chunkfit.profiler.microbench.operator_buffers import OperatorBuffers

TINY, LLAMA = PRESETS["tiny"], PRESETS["llama-3-8b"]


def test_the_floor_of_a_decode_iteration():
    # 8,030,261,248 weights less an embedding table of 128,256 x 4,096; 131,072 bytes of KV a token.
    assert iteration_floors.weights_read(LLAMA) == 8_030_261_248 - 128_256 * 4_096
    bytes_read = 2 * 7_504_924_672 + 64 * 1024 * 131_072
    assert iteration_floors.decode_floor_ms(LLAMA, 2, 64, 1024, 4e12) == pytest.approx(bytes_read / 4e9)
    tied = replace(LLAMA, tie_embeddings=True)
    assert iteration_floors.weights_read(tied) == iteration_floors.weights_read(LLAMA)


def test_the_flops_of_a_chunk():
    layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14_336
    pairs = 2 * 5 + 3  # tokens 5 and 6 of a prompt see 6 and 7 keys
    expected = 2 * 32 * layer * 2 + 2 * 128_256 * 4096 + 4 * 4096 * pairs * 32
    norms = 2 * 2 * (32 * 2 * 4096 + 4096)
    assert iteration_floors.chunk_flops(LLAMA, 2, 5) == expected + norms


@pytest.fixture
def buffers():
    return OperatorBuffers(TINY, "cpu", ColdTimer(torch.device("cpu")), 1 << 22, 64)


def dense(queries, keys, values):
    """queries (rows, heads, head_dim), the last of the sequence that keys, values (length, kv_heads, head_dim) are."""
    rows, length = len(queries), len(keys)
    shared = queries.shape[1] // keys.shape[1]
    scores = torch.einsum("qhd,khd->hqk", queries, keys.repeat_interleave(shared, 1)) / queries.shape[2] ** 0.5
    seen = torch.ones(rows, length, dtype=torch.bool, device=queries.device).tril(length - rows)
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values.repeat_interleave(shared, 1))


@pytest.mark.parametrize("dense_mask", [False, True])
@pytest.mark.parametrize(("tokens", "length"), [(8, 8), (8, 20), (1, 20)])
def test_sdpa_computes_what_we_compute(buffers, monkeypatch, tokens, length, dense_mask):
    """Grouped heads, and the mask of a chunk after a prefix at its lower right."""
    taken = []
    take = buffers.take
    monkeypatch.setattr(buffers, "take", lambda *shape: taken.append(take(*shape)) or taken[-1])
    case = attention_vs_sdpa.Case("", None, 2, tokens, length)
    peer = attention_vs_sdpa.Peer("math", SDPBackend.MATH, dense_mask)
    found = attention_vs_sdpa.peer_call(buffers, case, peer)().transpose(1, 2)
    expected = torch.stack([dense(*parts) for parts in zip(*taken, strict=True)])
    torch.testing.assert_close(found, expected)


def test_what_a_back_end_refuses_is_said_and_left_out(buffers):
    (case,) = (c for c in attention_vs_sdpa.cases(TINY, 4, "cpu", True) if c.title.startswith("decode"))
    buffers = OperatorBuffers(TINY, "cpu", ColdTimer(torch.device("cpu")), 1 << 22, 2 * case.ours.kv_tokens)
    peers = (
        attention_vs_sdpa.Peer("math", SDPBackend.MATH, True),
        attention_vs_sdpa.Peer("cudnn", SDPBackend.CUDNN_ATTENTION, True),
    )
    rows = {row.name: row for row in attention_vs_sdpa.compared(buffers, case, peers, 3)}
    assert set(rows) == {f"{case.title}: {name}" for name in ("ours", "math", "math / ours", "cudnn")}
    assert rows[f"{case.title}: cudnn"].value is None
    assert rows[f"{case.title}: cudnn"].unit.startswith("refused: ")
    assert rows[f"{case.title}: math"].n == 3


@pytest.mark.slow
@pytest.mark.parametrize("program", [attention_vs_sdpa, iteration_floors])
def test_it_runs_here(program, tmp_path):
    done = subprocess.run(
        [sys.executable, program.__file__, "--device", "cpu", "--quick", "--out", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    found = json.loads(path.read_text())
    assert set(found) == {"schema_version", "command", "git", "machine", "versions", "rows"}
    assert all(row["value"] is None or row["value"] > 0 for row in found["rows"])
    assert found["machine"]["gpu"] is None
