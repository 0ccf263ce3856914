"""All microbenchmarks of one device and model, within a time budget."""

from __future__ import annotations

import gc
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
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
from . import attention, ceilings, token_parallel
from .cold_timing import ColdTimer
from .iterations import measure_iteration, open_engine
from .operator_buffers import Operator, OperatorBuffers
from .operator_sizes import SIZES, OperatorSizes, operators_of, within
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

LEAST_REPLAYS = 20
P99_REPLAYS = 100
MOST_REPLAYS = 400
WARM_SHARE = 0.2  # of an operator's time: a warm replay for every four cold ones
WHOLE_SHARE = 0.15  # of the budget, for the whole iterations
WHOLE_REPEATS = 30

# done, total, name of the operator that is timed
Progress = Callable[[int, int, str], None]
Times = tuple[list[float], list[float]]  # (cold, warm) ms


@dataclass(frozen=True, slots=True)
class MicrobenchOptions:
    """device: "cpu" or "cuda". minutes: budget in all. attention: backend, None for the engine's choice. sizes: None
    for those of the device, fewer of them with quick. seed: of values and of the order of replays.
    """

    device: str
    model: str
    minutes: float
    quick: bool = False
    seed: int = 0
    attention: str | None = None
    sizes: OperatorSizes | None = None


@dataclass(frozen=True, slots=True)
class _Setup:
    """The options resolved on this machine. end: monotonic seconds at which the operators' share of the time ends."""

    options: MicrobenchOptions
    config: ModelConfig
    device: torch.device
    dtype: torch.dtype
    sizes: OperatorSizes
    end: float


@dataclass(frozen=True, slots=True)
class _Timed:
    """The times of all operators. attention: the backend that the engine took."""

    operators: list[Operator]
    samples: dict[Key, Times]
    skipped: list[SkippedV1]
    machine: MachineV1
    attention: str


def microbench(
    options: MicrobenchOptions, *, command: str = "", progress: Progress = lambda done, total, name: None
) -> MicrobenchV1:
    """Times every operator of a model on a device, for about the minutes of the budget.

    Operators that the time does not reach are listed as skipped; ceilings, ridge and whole iterations come first.
    Raises UsageError for impossible arguments, DeviceUnavailableError when the device is not there or cannot hold
    the buffers.
    """
    begun, started_at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    setup = _set_up(options, begun)
    with quiet_gc(), torch.inference_mode():
        # The buffers are freed when this returns: the engine of whole iterations needs the room.
        timed = _time_operators(setup, progress)
        if setup.device.type == "cuda":
            torch.cuda.empty_cache()
        progress(len(timed.operators), len(timed.operators), "whole iterations")
        limits = _ceilings(timed)
        rows = {o.key: _row(o, *timed.samples[o.key], limits) for o in timed.operators if o.key in timed.samples}
        ridge = _ridge(timed)
        whole, skipped = _time_iterations(setup, timed, rows)
    captured = CAPTURE_SIZES if setup.device.type in CAPTURES else ()
    versions = {package: installed_version(package) for package in ("chunkfit", "torch", "triton")}
    return MicrobenchV1(
        command=command,
        git=checkout_commit(),
        fingerprint=fingerprint(setup.config, options.device, setup.dtype, timed.attention, captured),
        machine=timed.machine,
        versions={"python": platform.python_version(), **versions},
        started_at=started_at,
        seconds=time.monotonic() - begun,
        ceilings=limits,
        rows=list(rows.values()),
        ridge=ridge,
        whole=whole,
        skipped=[*timed.skipped, *skipped],
    )


def _set_up(options: MicrobenchOptions, begun: float) -> _Setup:
    if not 0 < options.minutes < math.inf:
        raise UsageError(f"microbench: {options.minutes:g} minutes; expected more than 0")
    device = require_device(options.device)
    if device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(measuring_threads())
    config = resolve_model(options.model)
    sizes = options.sizes or SIZES[device.type, options.quick]
    sizes = within(sizes, default_domain(device.type, options.model))
    end = begun + 60 * options.minutes * (1 - WHOLE_SHARE)
    return _Setup(options, config, device, DEFAULT_DTYPES[device.type], sizes, end)


def _time_operators(setup: _Setup, progress: Progress) -> _Timed:
    timer = ColdTimer(setup.device, setup.options.seed)
    operators = operators_of(setup.config, setup.dtype.itemsize, setup.device.type, setup.sizes, timer.cache_bytes)
    buffers = _buffers(setup, operators, timer)
    samples: dict[Key, Times] = {}
    skipped: list[SkippedV1] = []
    cold_check = timer.cold_check()
    for done, operator in enumerate(operators):
        progress(done, len(operators), operator.name)
        share_s = max(0.0, setup.end - time.monotonic()) / (len(operators) - done)
        times = _time(buffers, operator, share_s)
        if isinstance(times, str):
            skipped.append(SkippedV1(name=operator.name, sizes=dict(operator.sizes), reason=times))
        else:
            samples[operator.key] = times
        gc.collect(0)
    machine = MachineV1(cache_bytes=timer.cache_bytes, rotated_bytes=timer.rotated_bytes, cold_check=cold_check)
    return _Timed(operators, samples, skipped, machine, buffers.engine.attention)


def _buffers(setup: _Setup, operators: list[Operator], timer: ColdTimer) -> OperatorBuffers:
    """Buffers for the timer's rotation and for the largest operator twice.

    Attention counts for the KV pool alone: its queries are small beside the arena.
    """
    options, config = setup.options, setup.config
    kv_token_bytes = 2 * config.kv_size * setup.dtype.itemsize
    of_arena = [o for o in operators if o.family not in (attention.DECODE, attention.CHUNK)]
    arena = max(timer.rotated_bytes, max(2 * (o.footprint_bytes + o.bytes_moved) for o in of_arena))
    pool = max(timer.rotated_bytes // kv_token_bytes, max(2 * o.kv_tokens for o in operators))
    return OperatorBuffers(config, options.device, timer, arena + (1 << 20), pool + 64, options.seed, options.attention)


def _time(buffers: OperatorBuffers, operator: Operator, share_s: float) -> Times | str:
    """(cold, warm) times in ms, or the reason why there are none. share_s: seconds that the operator may take."""
    needed = operator.family in (ceilings.FAMILY, token_parallel.WHOLE)
    if share_s <= 0 and not needed:
        return "the time budget was spent"
    timer, size = buffers.timer, operator.footprint_bytes
    try:
        begun = time.monotonic()
        call = operator.make(buffers)
        make_ms = (time.monotonic() - begun) * 1e3
        pilot_ms = float(np.median(timer.warm(call, 3)))
        if pilot_ms * LEAST_REPLAYS / 1e3 > max(4 * share_s, 1.0) and not needed:
            return f"one call takes {pilot_ms:.3g} ms: {LEAST_REPLAYS} do not fit the time budget"
        # At most one set of buffers is made for each replay.
        cold = int((1 - WARM_SHARE) * share_s * 1e3 / (pilot_ms + make_ms))
        replays = min(MOST_REPLAYS, max(LEAST_REPLAYS, cold))
        calls = [operator.make(buffers) for _ in range(timer.copies(size, replays))]
        return timer.cold(calls, size, replays), timer.warm(calls[0], replays // 4)
    except DeviceMemoryError as error:
        return str(error)
    except torch.OutOfMemoryError as error:
        return str(error).splitlines()[0]


def _ceilings(timed: _Timed) -> CeilingsV1:
    seconds = [
        (o, float(np.median(timed.samples[o.key][0])) / 1e3) for o in timed.operators if o.family == ceilings.FAMILY
    ]
    return CeilingsV1(
        copy_bytes_per_s=max(o.bytes_moved / s for o, s in seconds if o.name == "copy"),
        flops_per_s=max(o.flops / s for o, s in seconds if o.name == "matrix"),
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


def _ridge(timed: _Timed) -> RidgeV1:
    curve = [o for o in timed.operators if o.family == token_parallel.WHOLE]
    repeats = [timed.samples[o.key][0] for o in curve]
    return RidgeV1(method=METHOD, **asdict(find_ridge_of_repeats([o.sizes["tokens"] for o in curve], repeats)))


def _time_iterations(
    setup: _Setup, timed: _Timed, rows: dict[Key, OperatorRowV1]
) -> tuple[list[WholeV1], list[SkippedV1]]:
    options, batches = setup.options, setup.sizes.batches
    item, cache_bytes = setup.dtype.itemsize, timed.machine.cache_bytes
    engine = open_engine(options.device, options.model, batches, options.seed, timed.attention)
    whole: list[WholeV1] = []
    skipped: list[SkippedV1] = []
    for batch in batches:
        try:
            whole.append(measure_iteration(engine, setup.config, item, batch, rows, cache_bytes, WHOLE_REPEATS))
        except (KeyError, DeviceMemoryError) as error:
            reason = f"operator {error.args[0][0]} was not timed" if isinstance(error, KeyError) else str(error)
            sizes = dict(zip(AXES, batch, strict=True))
            skipped.append(SkippedV1(name="whole iteration", sizes=sizes, reason=reason))
    return whole, skipped
