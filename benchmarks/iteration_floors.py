"""Whole iterations of the engine beside the least time that this machine's memory and arithmetic allow.

Floor of a decode iteration: bytes of all weights but the embedding table (a row of it is read per token; where it is
tied to the lm_head it is read as that), and of the keys and values of every context, over the measured copy bandwidth.
Rate of a chunk: FLOPs of the matrix products (2 x weights x tokens, the lm_head for one row) and of attention (4 x
query width x the pairs that the causal mask lets through, in every layer), over its time, as a share of the measured
matrix rate. Both ceilings are those of `chunkfit microbench`, measured here first. Norms, rotation and sampling count
as nothing.

Times are of whole iterations as a sweep measures them: host wall clock from call to tokens on the host. low and high
are quartiles. On a GPU with CUDA graphs and without; a batch larger than what is captured runs eagerly in either.

Run: python benchmarks/iteration_floors.py [--device auto] [--model llama-3-8b] [--quick] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import gc
import os
from pathlib import Path

import numpy as np
import torch
from report import Row, reported

from chunkfit.engine.config import ModelConfig
from chunkfit.engine.engine import DEFAULT_DTYPES
from chunkfit.engine.facts import require_device
from chunkfit.engine.graphs.capture import CAPTURES
from chunkfit.engine.hf_config import resolve_model
from chunkfit.profiler.devices import resolve_device
from chunkfit.profiler.devices.torch_device import TorchDevice, measuring_threads
from chunkfit.profiler.microbench import ceilings
from chunkfit.profiler.microbench.cold_timing import ColdTimer
from chunkfit.profiler.microbench.iterations import open_engine
from chunkfit.profiler.microbench.operator_buffers import OperatorBuffers
from chunkfit.profiler.microbench.operator_sizes import Point
from chunkfit.profiler.timing import quiet_gc
from chunkfit.tables import Batch

WARMUPS = 5
# (n, k, c, u), by device and --quick.
POINTS: dict[tuple[str, bool], tuple[Point, ...]] = {
    ("cuda", False): (
        *((n, 1024, 0, 0) for n in (4, 8, 16, 32, 64)),
        *((0, 0, c, 0) for c in (2048, 4096, 8192)),
        (0, 0, 2048, 2048),
    ),
    ("cuda", True): ((4, 1024, 0, 0), (64, 1024, 0, 0), (0, 0, 2048, 0)),
    ("cpu", False): ((4, 256, 0, 0), (16, 256, 0, 0), (0, 0, 256, 0), (0, 0, 256, 256)),
    ("cpu", True): ((4, 64, 0, 0), (0, 0, 64, 0)),
}


def weights_read(config: ModelConfig) -> int:
    """Weights that every iteration reads whole."""
    table = 0 if config.tie_embeddings else config.vocab_size * config.hidden_size
    return config.parameter_count - table


def decode_floor_ms(config: ModelConfig, item: int, n: int, k: int, bytes_per_s: float) -> float:
    return 1e3 * (weights_read(config) * item + n * k * config.kv_bytes_per_token(item)) / bytes_per_s


def chunk_flops(config: ModelConfig, c: int, u: int) -> int:
    """Of one chunk of c tokens after u; 1-dimensional weights are few enough to stay in."""
    lm_head = config.vocab_size * config.hidden_size
    pairs = c * u + c * (c + 1) // 2
    attention = 4 * config.query_size * pairs * config.layers
    return 2 * (weights_read(config) - lm_head) * c + 2 * lm_head + attention


def measured_ceilings(config: ModelConfig, device: torch.device, replays: int) -> tuple[float, float]:
    """(bytes per second, FLOPs per second)."""
    timer, item = ColdTimer(device), DEFAULT_DTYPES[device.type].itemsize
    operators = ceilings.operators(config, item, device.type, timer.cache_bytes)
    room = timer.rotated_bytes + max(2 * (o.footprint_bytes + o.bytes_moved) for o in operators)
    buffers = OperatorBuffers(config, str(device), timer, room, 64)
    best = {"copy": 0.0, "matrix": 0.0}
    for operator in operators:
        calls = [operator.make(buffers) for _ in range(timer.copies(operator.footprint_bytes, replays))]
        seconds = float(np.median(timer.cold(calls, operator.footprint_bytes, replays))) / 1e3
        work = operator.bytes_moved if operator.name == "copy" else operator.flops
        best[operator.name] = max(best[operator.name], work / seconds)
    return best["copy"], best["matrix"]


def iteration_rows(
    engine: TorchDevice, config: ModelConfig, item: int, point: Point, limits: tuple[float, float], repeats: int
) -> list[Row]:
    """Of one batch: the median time, and what it is of the floor or the ceiling."""
    n, k, c, u = point
    engine.prepare(Batch.of(*point))
    for _ in range(WARMUPS):
        engine.run()
    taken = [engine.run().latency_ms for _ in range(repeats)]
    low, middle, high = np.quantile(taken, [0.25, 0.5, 0.75]).tolist()
    how = "with graphs" if engine.fingerprint.capture_sizes else "eager"
    if c:
        title, full_ms = f"chunk {c} after {u}, {how}", 1e3 * chunk_flops(config, c, u) / limits[1]
        ratio = Row(f"{title}: share of the matrix rate", full_ms / middle, "", repeats, full_ms / high, full_ms / low)
    else:
        title, floor = f"decode {n} x {k}, {how}", decode_floor_ms(config, item, n, k, limits[0])
        ratio = Row(f"{title}: time / floor", middle / floor, "x", repeats, low / floor, high / floor)
    return [Row(f"{title}: time", middle, "ms", repeats, low, high), ratio]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", help="default: llama-3-8b, on a CPU tiny")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats; under 50 s")
    parser.add_argument("--out", type=Path, help="folder of the results")
    arguments = parser.parse_args()
    device = require_device(resolve_device(arguments.device))
    model = arguments.model or ("llama-3-8b" if device.type == "cuda" else "tiny")
    if device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(measuring_threads())
    config, item = resolve_model(model), DEFAULT_DTYPES[device.type].itemsize
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    packages = ("chunkfit", "torch", "triton", "numpy")
    with reported("iteration_floors", packages, gpu=gpu, folder=arguments.out) as rows, quiet_gc():
        with torch.inference_mode():
            bandwidth, rate = measured_ceilings(config, device, 10 if arguments.quick else 50)
        rows += [Row("copy bandwidth", bandwidth / 1e9, "GB/s", 1), Row("matrix rate", rate / 1e12, "TFLOP/s", 1)]
        if gpu is not None:
            torch.cuda.empty_cache()
        points = POINTS[device.type, arguments.quick]
        for graphs in (True, False) if device.type in CAPTURES else (False,):
            engine = open_engine(device.type, model, points, 0, graphs=graphs)
            for point in points:
                repeats = 20 if arguments.quick or point[2] else 100  # a chunk takes far longer
                rows += iteration_rows(engine, config, item, point, (bandwidth, rate), repeats)
            del engine
            gc.collect()  # the next one needs the room


if __name__ == "__main__":
    main()
