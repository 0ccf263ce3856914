"""All microbenchmarks of one device and model, within a time budget."""

from __future__ import annotations

import gc
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

import numpy as np
import torch

from ...engine.config import ModelConfig
from ...engine.engine import DEFAULT_DTYPES
from ...engine.facts import fingerprint, require_device
from ...engine.graphs import CAPTURE_SIZES
from ...engine.graphs.capture import CAPTURES
from ...engine.hf_config import resolve_model
from ...files.errors import DeviceMemoryError, UsageError
from ...files.host import checkout_commit, installed_version
from ...planning.ridge import METHOD, find_ridge_of_repeats
from ...tables.batch import AXES
from ..devices.torch_device import measuring_threads
from ..domains import default_domain
from ..timing import quiet_gc
from . import ceilings, token_parallel
from .bench import Bench, Operator
from .grid import Grid, grid_of, operators_of, within
from .results import (
    CeilingsV1,
    Key,
    MachineV1,
    MicrobenchV1,
    OperatorRowV1,
    RidgeV1,
    SkippedV1,
    WholeV1,
)
from .timing import Timer
from .whole import measure_whole, open_engine

LEAST_REPLAYS = 20
P99_REPLAYS = 100
MOST_REPLAYS = 400
WARM_SHARE = 0.2  # of an operator's time: a warm replay for every four cold ones
WHOLE_SHARE = 0.15  # of the budget, for the whole iterations
WHOLE_REPEATS = 30

# done, total, what is being timed
Progress = Callable[[int, int, str], None]


@dataclass(slots=True)
class _Clock:
    """Seconds of the budget that operators may take, shared out as they come."""

    end: float
    left: int
    started: float = field(default_factory=time.monotonic)

    def share_s(self) -> float:
        return max(0.0, self.end - time.monotonic()) / max(self.left, 1)


def microbench(
    device: str,
    model: str,
    *,
    minutes: float,
    quick: bool = False,
    seed: int = 0,
    attention: str | None = None,
    grid: Grid | None = None,
    command: str = "",
    progress: Progress = lambda done, total, name: None,
) -> MicrobenchV1:
    """Times every operator of `model` on `device` ("cpu" or "cuda") for about `minutes` in all.

    grid: sizes, by default those of the device, fewer when quick. Operators the time does not reach are listed as
    skipped, the ceilings, the ridge and the whole iterations come first.
    Raises UsageError for impossible arguments, DeviceUnavailableError when the device is not there or cannot hold
    the buffers.
    """
    if not 0 < minutes < math.inf:
        raise UsageError(f"microbench: {minutes:g} minutes; expected more than 0")
    begun, started_at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    target = require_device(device)
    if target.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(measuring_threads())
    config, dtype = resolve_model(model), DEFAULT_DTYPES[target.type]
    grid = within(grid or grid_of(target.type, quick), default_domain(target.type, model))
    timer = Timer(target, seed)
    operators = operators_of(config, dtype.itemsize, target.type, grid, timer.cache_bytes)
    bench = _bench(config, device, timer, operators, seed, attention)
    attention = bench.engine.attention
    clock = _Clock(begun + 60 * minutes * (1 - WHOLE_SHARE), len(operators))
    samples: dict[Key, tuple[list[float], list[float]]] = {}
    skipped: list[SkippedV1] = []
    with quiet_gc(), torch.inference_mode():
        cold_check = timer.cold_check()
        for done, operator in enumerate(operators):
            progress(done, len(operators), operator.name)
            needed = operator.family in (ceilings.FAMILY, token_parallel.FAMILY)
            timed = _time(bench, operator, clock, needed)
            clock.left -= 1
            if isinstance(timed, str):
                skipped.append(SkippedV1(name=operator.name, sizes=dict(operator.sizes), reason=timed))
            else:
                samples[operator.key] = timed
            gc.collect(0)
        progress(len(operators), len(operators), "whole iterations")
        found = _ceilings(operators, samples)
        rows = {o.key: _row(o, *samples[o.key], found) for o in operators if o.key in samples}
        ridge = _ridge(operators, samples)
        machine = MachineV1(cache_bytes=timer.cache_bytes, rotated_bytes=timer.rotated_bytes, cold_check=cold_check)
        bench = timer = None  # type: ignore[assignment]  # the engine needs the room
        if target.type == "cuda":
            torch.cuda.empty_cache()
        whole = _whole(device, model, config, dtype.itemsize, grid, rows, machine.cache_bytes, seed, attention, skipped)
    return MicrobenchV1(
        command=command,
        git=checkout_commit(),
        fingerprint=fingerprint(config, device, dtype, attention, CAPTURE_SIZES if target.type in CAPTURES else ()),
        machine=machine,
        versions={
            "python": platform.python_version(),
            **{p: installed_version(p) for p in ("chunkfit", "torch", "triton")},
        },
        started_at=started_at,
        seconds=time.monotonic() - begun,
        ceilings=found,
        rows=list(rows.values()),
        ridge=ridge,
        whole=whole,
        skipped=skipped,
    )


def _bench(
    config: ModelConfig, device: str, timer: Timer, operators: list[Operator], seed: int, attention: str | None
) -> Bench:
    """Room for the rotation, and for the largest operator twice."""
    item = DEFAULT_DTYPES[timer.device.type].itemsize
    per_token = 2 * config.kv_size * item
    arena = max(timer.rotated_bytes, max(2 * (o.footprint_bytes + o.bytes_moved) for o in operators if not _pooled(o)))
    pool = max(timer.rotated_bytes // per_token, max(2 * o.kv_tokens for o in operators))
    return Bench(config, device, timer, arena + (1 << 20), pool + 64, seed, attention)


def _pooled(operator: Operator) -> bool:
    """Attention reads the pool; its queries are small beside the arena."""
    return operator.name in ("decode_attention", "chunk_attention")


def _time(bench: Bench, operator: Operator, clock: _Clock, needed: bool) -> tuple[list[float], list[float]] | str:
    """(cold, warm) times in ms, or why there are none."""
    share_s = clock.share_s()
    if share_s <= 0 and not needed:
        return "the time budget was spent"
    timer, size = bench.timer, operator.footprint_bytes
    try:
        begun = time.monotonic()
        call = operator.make(bench)
        make_ms = (time.monotonic() - begun) * 1e3
        pilot_ms = float(np.median(timer.warm(call, 3)))
        if pilot_ms * LEAST_REPLAYS / 1e3 > max(4 * share_s, 1.0) and not needed:
            return f"one call takes {pilot_ms:.3g} ms: {LEAST_REPLAYS} do not fit the time budget"
        # At most one set of buffers is made for each replay.
        cold = int((1 - WARM_SHARE) * share_s * 1e3 / (pilot_ms + make_ms))
        replays = min(MOST_REPLAYS, max(LEAST_REPLAYS, cold))
        calls = [operator.make(bench) for _ in range(timer.copies(size, replays))]
        return timer.cold(calls, size, replays), timer.warm(calls[0], replays // 4)
    except DeviceMemoryError as error:
        return str(error)
    except torch.OutOfMemoryError as error:
        return str(error).splitlines()[0]


def _ceilings(operators: list[Operator], samples: dict[Key, tuple[list[float], list[float]]]) -> CeilingsV1:
    timed = [(o, float(np.median(samples[o.key][0])) / 1e3) for o in operators if o.family == ceilings.FAMILY]
    return CeilingsV1(
        copy_bytes_per_s=max(o.bytes_moved / s for o, s in timed if o.name == "copy"),
        flops_per_s=max(o.flops / s for o, s in timed if o.name == "matrix"),
    )


def _row(operator: Operator, cold: list[float], warm: list[float], limits: CeilingsV1) -> OperatorRowV1:
    p50 = float(np.median(cold))
    streaming, arithmetic = operator.bytes_moved / limits.copy_bytes_per_s, operator.flops / limits.flops_per_s
    return OperatorRowV1(
        family=operator.family,
        name=operator.name,
        sizes=dict(operator.sizes),
        bytes_moved=operator.bytes_moved,
        flops=operator.flops,
        p50_ms=p50,
        p99_ms=float(np.quantile(cold, 0.99)) if len(cold) >= P99_REPLAYS else None,
        n=len(cold),
        warm_p50_ms=float(np.median(warm)),
        bytes_per_s=operator.bytes_moved / p50 * 1e3,
        flops_per_s=operator.flops / p50 * 1e3,
        ceiling="bandwidth" if streaming >= arithmetic else "matrix_rate",
        fraction=max(streaming, arithmetic) * 1e3 / p50,
    )


def _ridge(operators: list[Operator], samples: dict[Key, tuple[list[float], list[float]]]) -> RidgeV1:
    curve = [o for o in operators if o.family == token_parallel.FAMILY]
    ridge = find_ridge_of_repeats([o.sizes["tokens"] for o in curve], [samples[o.key][0] for o in curve])
    return RidgeV1(method=METHOD, **asdict(ridge))


def _whole(
    device: str,
    model: str,
    config: ModelConfig,
    item: int,
    grid: Grid,
    rows: dict[Key, OperatorRowV1],
    cache_bytes: int,
    seed: int,
    attention: str,
    skipped: list[SkippedV1],
) -> list[WholeV1]:
    engine = open_engine(device, model, grid.batches, seed, attention)
    whole = []
    for batch in grid.batches:
        try:
            whole.append(measure_whole(engine, config, item, batch, rows, cache_bytes, WHOLE_REPEATS))
        except (KeyError, DeviceMemoryError) as error:
            reason = f"operator {error.args[0][0]} was not timed" if isinstance(error, KeyError) else str(error)
            sizes = dict(zip(AXES, batch, strict=True))
            skipped.append(SkippedV1(name="whole iteration", sizes=sizes, reason=reason))
    return whole
