"""Our attention beside torch's scaled_dot_product_attention, one layer, cache-cold.

Ours reads keys and values through block tables of 16-token pages in random order; SDPA is given them contiguous, of
the same sizes, which no engine with a paged cache can. Times are those of `chunkfit microbench`: each call timed by
itself, on buffers out of the cache, several sets in turn. The two sides take turns too, since clocks drift.

A chunk after a prefix needs the causal mask aligned at its lower right. SDPA's flash back end has it
(`causal_lower_right`); cuDNN as torch calls it does not, so it is given a ready dense mask there and read with that in
mind ("dense mask"). On a CPU the math back end stands for both, so that this program runs anywhere.

A ratio is SDPA's median over ours: 1 is as fast, more is faster. low and high are quartiles, of a ratio the quartiles
of SDPA over ours the other way round.

Run: python benchmarks/attention_vs_sdpa.py [--device auto] [--model llama-3-8b] [--quick] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from report import Row, reported
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from chunkfit.engine.config import ModelConfig
from chunkfit.engine.engine import DEFAULT_DTYPES
from chunkfit.engine.facts import require_device
from chunkfit.engine.hf_config import resolve_model
from chunkfit.profiler.devices import resolve_device
from chunkfit.profiler.devices.torch_device import measuring_threads
from chunkfit.profiler.microbench.attention import chunk_operators, decode_operators
from chunkfit.profiler.microbench.cold_timing import Call, ColdTimer
from chunkfit.profiler.microbench.operator_buffers import Operator, OperatorBuffers
from chunkfit.profiler.timing import quiet_gc

ROUNDS = 3  # of ours and theirs in turn
MOST_MASK_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Peer:
    """dense_mask: what it is given for a chunk after a prefix, instead of a mask that it makes up itself."""

    name: str
    backend: SDPBackend
    dense_mask: bool


PEERS = {
    "cuda": (Peer("flash", SDPBackend.FLASH_ATTENTION, False), Peer("cudnn", SDPBackend.CUDNN_ATTENTION, True)),
    "cpu": (Peer("math", SDPBackend.MATH, True),),
}
# (chunk tokens, prefix tokens) and (decodes, context tokens), by device and --quick.
CHUNKS = {
    ("cuda", False): ((512, 0), (2048, 0), (8192, 0), (512, 8192), (2048, 2048), (2048, 8192)),
    ("cuda", True): ((2048, 0), (2048, 2048)),
    ("cpu", False): ((64, 0), (256, 0), (64, 512)),
    ("cpu", True): ((32, 0), (32, 64)),
}
DECODES = {
    ("cuda", False): ((4, 1024), (16, 1024), (64, 1024), (256, 1024), (16, 4096), (64, 4096), (4, 16_384)),
    ("cuda", True): ((64, 1024), (16, 4096)),
    ("cpu", False): ((4, 256), (16, 256), (16, 1024)),
    ("cpu", True): ((4, 64),),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One size: our operator and the shapes that SDPA takes. tokens: queries of each of `sequences`."""

    title: str
    ours: Operator
    sequences: int
    tokens: int
    length: int


def cases(config: ModelConfig, item: int, kind: str, quick: bool) -> list[Case]:
    chunks, decodes = CHUNKS[kind, quick], DECODES[kind, quick]
    return [
        *(
            Case(f"chunk {c} after {u}", operator, 1, c, u + c)
            for (c, u), operator in zip(chunks, chunk_operators(config, item, chunks), strict=True)
        ),
        *(
            Case(f"decode {n} x {k}", operator, n, 1, k)
            for (n, k), operator in zip(decodes, decode_operators(config, item, decodes), strict=True)
        ),
    ]


def peer_call(buffers: OperatorBuffers, case: Case, peer: Peer) -> Call:
    """SDPA on buffers of its own. Raises ValueError for a mask that is too large to be part of a comparison."""
    config = buffers.config

    def heads(count: int, tokens: int) -> torch.Tensor:
        return buffers.take(case.sequences, tokens, count, config.head_dim).transpose(1, 2)

    queries = heads(config.heads, case.tokens)
    keys, values = heads(config.kv_heads, case.length), heads(config.kv_heads, case.length)
    options: dict[str, object] = {"enable_gqa": config.heads != config.kv_heads}
    if case.tokens == case.length:
        options["is_causal"] = True
    elif case.tokens > 1 and not peer.dense_mask:
        options["attn_mask"] = causal_lower_right(case.tokens, case.length)
    elif case.tokens > 1:
        if case.tokens * case.length * buffers.item > MOST_MASK_BYTES:
            raise ValueError(f"a dense mask of {case.tokens} x {case.length} would be most of what is read")
        options["attn_mask"] = dense_mask(case.tokens, case.length, queries)
    return lambda: F.scaled_dot_product_attention(queries, keys, values, **options)  # type: ignore[arg-type]


def dense_mask(tokens: int, length: int, like: torch.Tensor) -> torch.Tensor:
    """(tokens, length), 0 up to each query's own position and -inf after it."""
    seen = torch.ones(tokens, length, dtype=torch.bool, device=like.device).tril(length - tokens)
    return torch.zeros(tokens, length, device=like.device, dtype=like.dtype).masked_fill_(~seen, -torch.inf)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sides of a comparison. backend: of SDPA, None for ours."""

    name: str
    backend: SDPBackend | None
    make: Callable[[], Call]

    def chosen(self) -> AbstractContextManager[None]:
        return nullcontext() if self.backend is None else sdpa_kernel(self.backend)


def sides_of(buffers: OperatorBuffers, case: Case, peers: tuple[Peer, ...]) -> list[Side]:
    masked = " with a dense mask" if 1 < case.tokens < case.length else ""
    ours = Side("ours", None, partial(case.ours.make, buffers))
    return [
        ours,
        *(
            Side(peer.name + masked * peer.dense_mask, peer.backend, partial(peer_call, buffers, case, peer))
            for peer in peers
        ),
    ]


def refusal(side: Side) -> str | None:
    """Why a back end does not take the call, in its own words, or None when it does."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with side.chosen():
                side.make()()
        except (RuntimeError, ValueError, torch.OutOfMemoryError) as error:
            reasons = [str(warning.message).split(" (Triggered")[0] for warning in said] or [str(error)]
            return reasons[0].splitlines()[0]
    return None


def compared(buffers: OperatorBuffers, case: Case, peers: tuple[Peer, ...], replays: int) -> list[Row]:
    timer, size = buffers.timer, case.ours.footprint_bytes
    sides = sides_of(buffers, case, peers)
    refusals = {side.name: refusal(side) for side in sides}
    rows = [
        Row(f"{case.title}: {name}", None, f"refused: {reason}", 0)
        for name, reason in refusals.items()
        if reason is not None
    ]
    calls = {
        side.name: [side.make() for _ in range(timer.copies(size, replays))]
        for side in sides
        if refusals[side.name] is None
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for side in sides:
            if side.name in calls:
                with side.chosen():
                    times[side.name] += timer.cold(calls[side.name], size, replays // ROUNDS)
    quartiles = {name: np.quantile(taken, [0.25, 0.5, 0.75]).tolist() for name, taken in times.items()}
    for name, (low, middle, high) in quartiles.items():
        rows.append(Row(f"{case.title}: {name}", middle, "ms", len(times[name]), low, high))
        if name != "ours" and "ours" in quartiles:
            mine = quartiles["ours"]
            ratio = Row(f"{case.title}: {name} / ours", middle / mine[1], "x", replays, low / mine[2], high / mine[0])
            rows.append(ratio)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", help="default: llama-3-8b, on a CPU tiny")
    parser.add_argument("--quick", action="store_true", help="fewer sizes; under 50 s")
    parser.add_argument("--out", type=Path, help="folder of the results")
    arguments = parser.parse_args()
    device = require_device(resolve_device(arguments.device))
    if device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(measuring_threads())
    config = resolve_model(arguments.model or ("llama-3-8b" if device.type == "cuda" else "tiny"))
    item = DEFAULT_DTYPES[device.type].itemsize
    listed = cases(config, item, device.type, arguments.quick)
    timer = ColdTimer(device)
    largest = max(case.ours.footprint_bytes + case.ours.bytes_moved for case in listed)
    pool = max(timer.rotated_bytes // (2 * config.kv_size * item), max(2 * case.ours.kv_tokens for case in listed))
    # The arena holds SDPA's keys and values too.
    arena = timer.rotated_bytes + 2 * largest + (1 << 20)
    buffers = OperatorBuffers(config, str(device), timer, arena, pool + 64)
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    packages = ("chunkfit", "torch", "triton", "numpy")
    with (
        reported("attention_vs_sdpa", packages, gpu=gpu, folder=arguments.out) as rows,
        quiet_gc(),
        torch.inference_mode(),
    ):
        for case in listed:
            rows += compared(buffers, case, PEERS[device.type], 15 if arguments.quick else 60)


if __name__ == "__main__":
    main()
