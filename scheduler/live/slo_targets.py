"""Workloads on a device's own scale: targets as multiples of its decode-only iteration, requests for some seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...files.errors import UsageError
from ...files.specs import join, split
from ...files.strict import Strict
from ...files.units import milliseconds
from ...tables.batch import Batch
from ...tables.cost_table import CostTable
from ..serving_state import Limits
from ..workloads.registry import workload
from ..workloads.workload import Workload

LENGTHS_FROM = 1000  # requests that mean lengths are taken from
ANY = "1s"  # a target that says nothing yet

# (requests/s, seconds, seed) -> what arrives
MakeWorkload = Callable[[float, float, int], Workload]


class SloTargets(Strict):
    """decode_ms: expected time of `decodes` decodes at mean context `context_tokens`, the unit of multiples."""

    ttft_ms: float
    tpot_ms: float
    decode_ms: float
    decodes: int
    context_tokens: int

    def title(self) -> str:
        """One line for people."""
        return (
            f"TTFT {self.ttft_ms:.4g} ms, TPOT {self.tpot_ms:.4g} ms: {self.ttft_ms / self.decode_ms:.3g} and "
            f"{self.tpot_ms / self.decode_ms:.3g} times {self.decode_ms:.4g} ms, which {self.decodes} decodes of "
            f"context {self.context_tokens:,} are expected to take"
        )


def targets_for(table: CostTable, limits: Limits, spec: str, ttft: str, tpot: str) -> SloTargets:
    """ttft, tpot: `25ms`, or `3x` of the decode-only iteration: as many decodes as run at once, of the workload's mean
    context, less where the table's domain ends. Raises UsageError.
    """
    name, said = split(spec, "workload", "mixed:prompt_scale=0.5x")
    sized = said | {"requests": str(LENGTHS_FROM), "rate": "1"}
    lengths = workload(join(name, sized | {"ttft": ANY, "tpot": ANY}), 0).requests
    domain = table.domain
    most = min(limits.max_request_tokens, domain.max_context_tokens)
    contexts = np.minimum(lengths["prompt_tokens"] + lengths["output_tokens"] / 2, most)
    context = max(1, round(float(contexts.mean())))
    decodes = min(limits.max_running, domain.kv_tokens // context)
    decode_ms = table.expected_ms(Batch.of(decodes, context))
    return SloTargets(
        ttft_ms=_time(ttft, "--ttft", decode_ms),
        tpot_ms=_time(tpot, "--tpot", decode_ms),
        decode_ms=decode_ms,
        decodes=decodes,
        context_tokens=context,
    )


def maker(spec: str, targets: SloTargets) -> MakeWorkload:
    """The workload of `spec` with these targets, at any rate, for any time. Raises UsageError where it says both."""
    name, said = split(spec, "workload", "mixed:prompt_scale=0.5x")
    twice = sorted({"rate", "requests", "ttft", "slowdown", "tpot"} & said.keys())
    if twice:
        raise UsageError(
            f"workload {spec!r}: {', '.join(twice)} is set by the run itself; leave it out there and give --rate, "
            "--seconds, --ttft or --tpot"
        )
    own = said | {"ttft": f"{targets.ttft_ms:.6f}ms", "tpot": f"{targets.tpot_ms:.6f}ms"}

    def make(rate: float, seconds: float, seed: int) -> Workload:
        count = max(1, round(rate * seconds))
        return workload(join(name, own | {"rate": f"{rate:.6f}", "requests": str(count)}), seed)

    return make


def require_room(requests: NDArray[Any], limits: Limits) -> None:
    """Raises UsageError where not one of the requests fits the engine."""
    tokens, most = _lengths(requests, limits)
    if (tokens > most).all():
        raise UsageError(
            f"the shortest of {len(tokens):,} requests has {int(tokens.min()):,} tokens, and one request may have "
            f"{most:,}: {limits.pages:,} KV pages of {limits.page_tokens} tokens, longest request measured "
            f"{limits.max_request_tokens:,}; expected room for one at least: give more --kv-tokens, shorter requests "
            "(prompt_scale=0.2x, max_prompt=800) or a table of a larger domain"
        )


def refused_note(requests: NDArray[Any], limits: Limits) -> str | None:
    """How many requests are longer than the engine holds."""
    tokens, most = _lengths(requests, limits)
    longer = int((tokens > most).sum())
    return f"{longer:,} of {len(tokens):,} requests have more than {most:,} tokens and are refused" if longer else None


def _lengths(requests: NDArray[Any], limits: Limits) -> tuple[NDArray[np.int64], int]:
    """Tokens of each request, and the most that one may have."""
    tokens = requests["prompt_tokens"].astype(np.int64) + requests["output_tokens"]
    return tokens, min(limits.max_request_tokens, limits.pages * limits.page_tokens)


def _time(text: str, option: str, unit_ms: float) -> float:
    if not text.endswith("x"):
        value = milliseconds(text, option)
    else:
        try:
            value = float(text[:-1]) * unit_ms
        except ValueError:
            value = -1.0
    if not 0 < value < np.inf:
        raise UsageError(f"{option} {text!r}: expected a time above 0 such as 25ms, or a multiple such as 3x")
    return value
