"""One decision: what the policy gives, and what is done where the table has no answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...files.errors import UsageError
from ...scheduler.cost import OUTSIDE, bound_ticks, from_table
from ...scheduler.policies import Policy, policy
from ...scheduler.policies.sloweave import time_budget
from ...scheduler.serving_state import NEVER, State, mean_context
from ...tables.cost_table import CostTable
from ...tables.fingerprint import Fingerprint, require_same
from ...tables.lookup import MEASURED, TICKS_PER_MS, boxes_above
from ...tables.verdict import require_certified, require_usable
from .options import Options
from .state import Decodes, PolicyState, PromptState, Room

# Iterations outside of the measured domain from one piece of a prompt to the next, while there are decodes.
OUTSIDE_PERIOD = 8


@dataclass(frozen=True, slots=True)
class Decision:
    """chosen: (index of a prompt, its tokens), in order. outside: the table does not hold this state. by_order: it did
    not measure the chosen batch and answers with the bound of one with more work.

    budget_ms: time to the earliest deadline of a decode, None without decodes. bound_ms: of the chosen batch, None
    outside of the domain.
    """

    chosen: tuple[tuple[int, int], ...]
    outside: bool
    by_order: bool
    budget_ms: float | None
    bound_ms: float | None

    @property
    def chunk_tokens(self) -> int:
        return sum(tokens for _, tokens in self.chosen)


class Decider:
    """The policy of the options over the table of the options.

    Outside of the measured domain decodes run alone; without decodes, and after OUTSIDE_PERIOD such iterations, one
    `align` of a prompt (a KV page at least) is computed, never what the engine's own budget would allow. The same
    where a policy gives nothing and nothing else can change that.
    """

    def __init__(self, table: CostTable, options: Options, capacity: int) -> None:
        """Raises UsageError for a policy that is unknown or refuses requests, which a scheduler in vLLM cannot."""
        self.policy: Policy = policy(options.policy)
        if self.policy.options.get("admission"):
            raise UsageError(
                f"policy {options.policy!r}: admission=yes refuses requests, which a scheduler inside vLLM cannot; "
                "expected a policy without it: limit requests in front of the engine"
            )
        self._cost = from_table(table)
        self._state = PolicyState(self.policy, capacity)
        self._outside_in_a_row = 0

    def decide(self, now: int, decodes: Decodes, prompts: Sequence[PromptState], room: Room) -> Decision:
        """now: ticks at which the iteration begins."""
        state = self._state
        state.fill(now, decodes, prompts, room)
        code, chosen = state.decide(prompts, self._cost)
        outside = code == OUTSIDE
        self._outside_in_a_row = self._outside_in_a_row + 1 if outside else 0
        due = not decodes.contexts or (outside and self._outside_in_a_row % OUTSIDE_PERIOD == 0)
        if not chosen and prompts and due:
            chosen = self._least(prompts, room)
        bound, by_order = self._bound(prompts, chosen)
        budget = time_budget(state.state) / TICKS_PER_MS if decodes.contexts else None
        return Decision(tuple(chosen), outside or bound is None, by_order, budget, bound)

    def over(self, iteration_ticks: int, chunk_tokens: int) -> None:
        """See `PolicyState.over`."""
        self._state.over(iteration_ticks, chunk_tokens)

    def _least(self, prompts: Sequence[PromptState], room: Room) -> list[tuple[int, int]]:
        """One align of a prompt that has begun, else of the first one."""
        index = next((i for i, prompt in enumerate(prompts) if prompt.begun), 0)
        align = self.policy.options.get("align", 1)
        assert isinstance(align, int)
        return [(index, min(max(align, room.page_tokens), prompts[index].target - prompts[index].computed))]

    def _bound(self, prompts: Sequence[PromptState], chosen: Sequence[tuple[int, int]]) -> tuple[float | None, bool]:
        """The bound of the chosen batch, None without one, and whether it is one by order."""
        state: State = self._state.state
        s = state.scalars[0]
        tokens, prefix = sum(c for _, c in chosen), sum(prompts[i].computed for i, _ in chosen)
        longest = int(s["longest_context"])
        n, k, support = int(s["decoding"]), mean_context(state), int(self._cost.head[0].support)
        bound = bound_ticks(self._cost, n, k, longest, tokens, prefix, len(chosen))
        if bound == OUTSIDE:
            return None, False
        measured = support == OUTSIDE or boxes_above(self._cost.nodes, support, n, k, tokens, prefix) == MEASURED
        return int(bound) / TICKS_PER_MS, not measured


def load_table(options: Options, engine: Fingerprint) -> CostTable:
    """The table to schedule with.

    Raises UsageError without one or without a target, what CostTable.load raises for a file that is not there or
    is damaged, FingerprintMismatchError for one of another device, model or engine.
    """
    if options.table is None or options.tpot_ms is None:
        raise UsageError(
            "SLOWeaveScheduler: no table or no target; expected --additional-config "
            '\'{"chunkfit": {"table": "table.json", "tpot_ms": 25}}\''
        )
    table = CostTable.load(options.table)
    require_usable(table.document.verdict, options.table, options.allow_refuted)
    require_certified(table.document.certificate, options.table)
    require_same(table.document.fingerprint, engine, f"{options.table} and this engine")
    return table


def warm_up(decider: Decider, page_tokens: int) -> None:
    """The first decision compiles; it must not be one of an engine that serves."""
    decodes = Decodes()
    decodes.add(2, 0, NEVER, 1, NEVER, 0)
    prompt = PromptState("", 2, 0, False, 0, NEVER, NEVER, 0, 0)
    decider.decide(0, decodes, [prompt], Room(1, 2, page_tokens, 4))
