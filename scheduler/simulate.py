"""The simulator: a policy decides by its own cost, time passes by the true cost.

Time is integer ticks and requests are in order of arrival, so a run is a function of its arguments: the same bytes in
every process, compiled or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files.errors import OutOfDomainError, UsageError
from ..tables.lookup import TICKS_PER_MS
from .cost import EXACT, Cost, head_of
from .cost.cost_record import Factors
from .dtypes import ITERATION, RESULT
from .iteration import World, heap_starts, sum_up_unfinished
from .loop import DONE, OUTSIDE_POLICY_COST, OUTSIDE_TRUE_COST, SLICE_END, STUCK, run_iterations
from .policies import Policy
from .serving_state import NEVER, Limits, State, empty_state, mean_context
from .workloads.workload import check_requests

SLICE = 1 << 18  # iterations of one compiled call: Ctrl-C takes effect between two calls


@dataclass(frozen=True, slots=True)
class Run:
    """results: RESULT, one row for each request. log: ITERATION, one row for each iteration, empty unless requested."""

    results: NDArray[Any]
    log: NDArray[Any]
    iterations: int
    makespan_ms: float  # end of the last iteration, or a later arrival that was refused
    exceptions: int  # iterations that went over their budget on purpose (aging)
    relegations: int
    by_order: int  # iterations of batches that were not measured, answered from batches with more work
    unmeasured: int  # iterations that nothing measured is above

    def support_counts(self) -> dict[str, int]:
        """What the policy's cost rests on, by iterations; the others were measured."""
        return {"by_order": self.by_order, "unmeasured": self.unmeasured}


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a run differs from its costs and requests.

    factors: of the true cost, by iteration. scheduling_ms: added to every iteration. until_ms: no iteration begins
    later; requests that are not finished then stay unfinished.
    """

    factors: Factors = field(default_factory=lambda: EXACT)
    scheduling_ms: float = 0.0
    until_ms: float | None = None


def simulate(
    workload: NDArray[Any],
    policy: Policy,
    belief: Cost,
    truth: Cost,
    limits: Limits,
    conditions: Conditions | None = None,
    *,
    log: bool = False,
) -> Run:
    """One run of `policy` over `workload` (WORKLOAD, in order of arrival).

    belief: the cost that the policy asks. truth: the cost of an iteration, before the conditions' factor. log: keep a
    row for each iteration. Raises UsageError for an impossible workload, OutOfDomainError where an iteration lies
    outside of a cost's domain.
    """
    check_requests(workload, "simulate")
    world = world_of(workload, conditions or Conditions())
    state = empty_state(len(workload), policy.parameters(), limits)
    page = np.zeros(SLICE if log else 0, ITERATION)
    pages: list[NDArray[Any]] = []
    code = SLICE_END
    while code == SLICE_END:
        begin = int(state.scalars["iteration"][0])
        code = run_iterations(world, state, belief, truth, page, SLICE)
        if log:
            pages.append(page[: int(state.scalars["iteration"][0]) - begin].copy())
    if code != DONE:
        raise refusal(code, state, belief if code == OUTSIDE_POLICY_COST else truth)
    sum_up_unfinished(world, state)
    scalars = state.scalars[0]
    return Run(
        world.results,
        np.concatenate(pages) if pages else page,
        int(scalars["iteration"]),
        float(scalars["now"]) / TICKS_PER_MS,
        int(scalars["exceptions"]),
        int(scalars["relegations"]),
        int(scalars["by_order"]),
        int(scalars["unmeasured"]),
    )


def world_of(workload: NDArray[Any], conditions: Conditions) -> World:
    """A run that has not begun."""
    results = np.zeros(len(workload), RESULT)
    for name in ("first_token_ms", "finish_ms", "mean_gap_ms", "p99_gap_ms", "largest_gap_ms"):
        results[name] = np.nan
    starts = heap_starts(workload["output_tokens"])
    return World(
        # numba compiles again for a read-only array, which takes longer than a copy.
        workload if workload.flags.writeable else workload.copy(),
        results,
        np.zeros(int(starts[-1]), np.int64),
        starts,
        conditions.factors,
        np.zeros(1, np.int64),
        round(conditions.scheduling_ms * TICKS_PER_MS),
        NEVER if conditions.until_ms is None else round(conditions.until_ms * TICKS_PER_MS),
    )


def refusal(code: int, state: State, cost: Cost) -> Exception:
    """The error of a run that stopped. code: of loop.py. cost: the one whose domain was left."""
    scalars = state.scalars[0]
    n, c, u = int(scalars["decoding"]), int(scalars["chunk_tokens"]), int(scalars["prefix_tokens"])
    where = (
        f"iteration {scalars['iteration']} at {scalars['now'] / TICKS_PER_MS:.3f} ms: n {n}, "
        f"mean context {mean_context(state)}, longest {scalars['longest_context']}"
    )
    if code == STUCK:
        return UsageError(
            f"{where}: none of {int(scalars['queued'])} queued requests can get a token, and no decode will change "
            "that; is a cached prefix longer than Limits.max_prefix_tokens or than the policy's cost holds, or the "
            "policy's chunk smaller than a prompt where no prefix was measured?"
        )
    who = {OUTSIDE_POLICY_COST: "the policy's cost", OUTSIDE_TRUE_COST: "the true cost"}[code]
    domain = {name: getattr(head_of(cost), name) for name in ("max_decodes", "max_context_tokens", "kv_tokens")}
    return OutOfDomainError(
        f"{where}, chunk {c}, prefix {u} lies outside of {who} ({domain}); keep the limits within it "
        "(Limits.within) or take a table of a larger domain"
    )
