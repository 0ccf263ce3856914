"""vLLM's requests as the state that policies are written for, made anew for each decision.

vLLM owns the requests, their order and the KV pages; a policy sees what it needs to give prompt tokens: the decodes
with their deadlines, the prompts that could get a chunk, in the policy's own order, and how much room there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...scheduler.cost import Cost
from ...scheduler.dtypes import UNKNOWN_OUTPUT
from ...scheduler.policies import Policy
from ...scheduler.policies.registry import decide, observe, place
from ...scheduler.serving_state import CHOSEN, DECODES, NEVER, QUEUE, Limits, State, empty_state
from ...tables.lookup import TICKS_PER_MS


def ticks(seconds: float) -> int:
    """Rounded up: an event is never taken to be earlier than it is."""
    return math.ceil(seconds * 1e3 * TICKS_PER_MS)


def target_ticks(target_ms: float | None, none: int) -> int:
    """Whole ticks within a target."""
    return none if target_ms is None else min(none, math.floor(target_ms * TICKS_PER_MS))


@dataclass(slots=True)
class Decodes:
    """One entry for each token that a decode computes; times in ticks. contexts: KV tokens read, its own included."""

    contexts: list[int] = field(default_factory=list)
    last_token: list[int] = field(default_factory=list)
    schedule: list[int] = field(default_factory=list)  # deadline of the first token, its time where that was late
    generated: list[int] = field(default_factory=list)
    tpot: list[int] = field(default_factory=list)
    priority: list[int] = field(default_factory=list)

    def add(self, context: int, last_token: int, schedule: int, generated: int, tpot: int, priority: int) -> None:
        self.contexts.append(context)
        self.last_token.append(last_token)
        self.schedule.append(schedule)
        self.generated.append(generated)
        self.tpot.append(tpot)
        self.priority.append(priority)


@dataclass(frozen=True, slots=True)
class PromptState:
    """A prompt that could get a chunk; computed: with what the prefix cache holds of it. begun: it holds KV pages."""

    name: str
    target: int
    computed: int
    begun: bool
    arrival: int
    first_deadline: int
    tpot: int
    generated: int
    priority: int


@dataclass(frozen=True, slots=True)
class Room:
    """What vLLM can still take: places for further requests, free KV pages, and n + c at most."""

    places: int
    pages: int
    page_tokens: int
    max_batch_tokens: int


class PolicyState:
    """The state of one engine, and the policy's own memory in it (aging, throughput, relegation)."""

    def __init__(self, policy: Policy, capacity: int) -> None:
        """capacity: decode tokens and prompts of a decision at most."""
        # The engine's limits change from decision to decision and are set before each.
        self.state: State = empty_state(capacity, policy.parameters(), Limits(max_running=1, pages=1))
        self._relegated: set[str] = set()

    def fill(self, now: int, decodes: Decodes, prompts: Sequence[PromptState], room: Room) -> None:
        """Everything that a decision reads, times in ticks; slots are the decodes, then the prompts.

        Whoever holds pages is running; a decode of several tokens counts once for each of them, so `running` less
        `decoding` is the number of begun prompts, as policies take it.
        """
        state = self.state
        requests, s, n = state.requests, state.scalars[0], len(decodes.contexts)
        rows = requests[:n]
        rows["last_token"], rows["tpot"] = decodes.last_token, decodes.tpot
        rows["schedule"], rows["generated"] = decodes.schedule, decodes.generated
        rows["priority"], rows["last_deadline"] = decodes.priority, NEVER
        state.slots[DECODES, :n] = np.arange(n)
        s["now"], s["decoding"], s["queued"] = now, n, len(prompts)
        s["decode_kv_tokens"], s["longest_context"] = sum(decodes.contexts), max(decodes.contexts, default=0)
        s["running"] = n + sum(prompt.begun for prompt in prompts)
        s["max_running"] = s["running"] + room.places
        s["pages"], s["pages_used"], s["page_tokens"] = room.pages, 0, room.page_tokens
        s["max_batch_tokens"] = room.max_batch_tokens
        for i, prompt in enumerate(prompts, n):
            request = requests[i]
            request["row"], request["arrival"] = i, prompt.arrival
            request["first_deadline"] = request["schedule"] = prompt.first_deadline
            request["last_deadline"], request["tpot"] = NEVER, prompt.tpot
            request["target"], request["computed"] = prompt.target, prompt.computed
            request["generated"], request["output_estimate"] = prompt.generated, UNKNOWN_OUTPUT
            request["chunk"], request["pages"] = 0, int(prompt.begun)
            request["priority"], request["relegated"] = prompt.priority, prompt.name in self._relegated
            place(state, i)
        keys = requests["key"][n : n + len(prompts)]
        state.slots[QUEUE, : len(prompts)] = n + np.argsort(keys, kind="stable")

    def decide(self, prompts: Sequence[PromptState], cost: Cost) -> tuple[int, list[tuple[int, int]]]:
        """(what `policies.registry` returns, (index of a prompt, its tokens) in the order they were given)."""
        state = self.state
        code = int(decide(state, cost))
        s = state.scalars[0]
        s["iteration"] += 1
        first = int(s["decoding"])
        chosen = state.slots[CHOSEN, : int(s["chosen"])].tolist()
        given = [(slot - first, int(state.requests[slot]["chunk"])) for slot in chosen]
        flags = state.requests["relegated"][first : first + len(prompts)].tolist()
        self._relegated = {prompt.name for prompt, flag in zip(prompts, flags, strict=True) if flag}
        return code, given

    def over(self, iteration_ticks: int, chunk_tokens: int) -> None:
        """An iteration with so many prompt tokens took so long; a later one may have been decided meanwhile."""
        self.state.scalars[0]["chunk_tokens"] = chunk_tokens
        observe(self.state, iteration_ticks)
