"""The requests in flight: text, page numbers and stage of each; cancellation.

The scheduler's state counts pages. This module holds the page numbers and follows the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import torch

from ...engine.host_step import SequenceWork
from ...engine.kv_cache import PageAllocator
from ..compiled import compiled
from ..dtypes import Status
from ..iteration import World, leave_decodes, sum_up, survey
from ..serving_state import CHOSEN, DECODES, QUEUE, State, free_slot, leave_queue, release


class Stage(StrEnum):
    """Where a request in flight is; a preempted one waits again."""

    WAITING = "waiting"
    PREFILLING = "prefilling"
    DECODING = "decoding"


@dataclass(frozen=True, slots=True)
class InFlight:
    """One request as it stands between two iterations. tokens: given so far. computed: KV tokens."""

    row: int
    stage: Stage
    computed: int
    tokens: int
    pages: int


@dataclass(slots=True)
class _Sequence:
    """prompt: int64, on the CPU."""

    row: int
    prompt: torch.Tensor
    tokens: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)

    def token_ids(self, start: int, count: int) -> torch.Tensor:
        """Of prompt and output; a preempted request computes its output again too."""
        known = torch.cat((self.prompt, torch.tensor(self.tokens))) if self.tokens else self.prompt
        return known[start : start + count]


class InFlightRequests:
    """prompts: token ids of a row's prompt. texts: output token ids by row, of all that got any."""

    def __init__(self, state: State, allocator: PageAllocator, prompts: Callable[[int], torch.Tensor]) -> None:
        self._state = state
        self._allocator = allocator
        self._prompts = prompts
        self._sequences: dict[int, _Sequence] = {}  # by slot
        self.texts: dict[int, list[int]] = {}

    def work(self) -> tuple[list[SequenceWork], list[SequenceWork]]:
        """The decision in hand as the engine takes it; preempted requests lose their pages, others get theirs.

        Raises DeviceMemoryError where the pool is smaller than the state takes it to be.
        """
        self._free_pages()
        decoding, chosen = self._slots()
        records = self._state.requests[decoding + chosen]
        wanted, computed, chunk = (records[name].tolist() for name in ("pages", "computed", "chunk"))
        decodes, chunks = [], []
        for at, slot in enumerate(decoding):
            sequence = self._sequences[slot]
            self._grow(sequence, wanted[at])
            decodes.append(SequenceWork(sequence.tokens[-1:], computed[at], sequence.pages))
        for at, slot in enumerate(chosen, len(decoding)):
            sequence = self._sequences.get(slot) or self._begin(slot)
            self._grow(sequence, wanted[at])
            chunks.append(SequenceWork(sequence.token_ids(computed[at], chunk[at]), computed[at], sequence.pages))
        return decodes, chunks

    def take(self, tokens: list[int]) -> None:
        """What the iteration sampled, before the state counts it; of a prompt that is not whole it is no text."""
        decoding, chosen = self._slots()
        for slot, token in zip(decoding, tokens, strict=False):
            self._sequences[slot].tokens.append(token)
        for slot, token in zip(chosen, tokens[len(decoding) :], strict=True):
            request = self._state.requests[slot]
            if request["computed"] + request["chunk"] == request["target"]:
                self._sequences[slot].tokens.append(token)

    def land(self) -> None:
        """After the state has counted: those who have all of their tokens give back their pages."""
        for slot in self._free_pages():
            self.drop(slot)

    def drop(self, slot: int) -> None:
        """The request of that slot is no longer in flight; it may not have begun."""
        sequence = self._sequences.pop(slot, None)
        if sequence is not None:
            self._allocator.free(sequence.pages)
            self.texts[sequence.row] = sequence.tokens

    def end(self) -> None:
        """Whoever is still in flight gives back its pages."""
        for slot in list(self._sequences):
            self.drop(slot)

    def requests(self) -> list[InFlight]:
        """All in flight: decodes first, then the prefill queue in its order."""
        s = self._state.scalars[0]
        decoding = self._state.slots[DECODES, : s["decoding"]].tolist()
        queued = self._state.slots[QUEUE, : s["queued"]].tolist()
        found: list[InFlight] = []
        for slot in decoding + queued:
            request = self._state.requests[slot]
            begun = Stage.PREFILLING if request["pages"] else Stage.WAITING
            stage = Stage.DECODING if len(found) < len(decoding) else begun
            counts = (int(request[name]) for name in ("computed", "generated", "pages"))
            found.append(InFlight(int(request["row"]), stage, *counts))
        return found

    def _slots(self) -> tuple[list[int], list[int]]:
        s = self._state.scalars[0]
        slots = self._state.slots
        return slots[DECODES, : s["decoding"]].tolist(), slots[CHOSEN, : s["chosen"]].tolist()

    def _begin(self, slot: int) -> _Sequence:
        row = int(self._state.requests[slot]["row"])
        sequence = self._sequences[slot] = _Sequence(row, self._prompts(row))
        return sequence

    def _grow(self, sequence: _Sequence, pages: int) -> None:
        missing = pages - len(sequence.pages)
        if missing > 0:
            sequence.pages += self._allocator.allocate(missing)

    def _free_pages(self) -> list[int]:
        """Slots that hold pages here and none in the state; they hold none afterwards."""
        slots = list(self._sequences)
        held = self._state.requests["pages"][slots].tolist()
        lost = [slot for slot, pages in zip(slots, held, strict=True) if not pages and self._sequences[slot].pages]
        for slot in lost:
            sequence = self._sequences[slot]
            self._allocator.free(sequence.pages)
            sequence.pages = []
        return lost


CANCELLED = int(Status.CANCELLED)
NOT_IN_FLIGHT = -1


@compiled
def cancel(world: World, state: State, row: int) -> int:
    """Between two iterations: the request of `row` leaves with the tokens it has. Returns the slot that it had."""
    s = state.scalars[0]
    slot = NOT_IN_FLIGHT
    for i in range(s["queued"]):
        if state.requests[state.slots[QUEUE, i]]["row"] == row:
            slot = state.slots[QUEUE, i]
    queued = slot != NOT_IN_FLIGHT
    for i in range(s["decoding"]):
        if state.requests[state.slots[DECODES, i]]["row"] == row:
            slot = state.slots[DECODES, i]
    if slot == NOT_IN_FLIGHT:
        return NOT_IN_FLIGHT
    world.results[row]["status"] = CANCELLED
    sum_up(world, state, slot)
    if queued:
        leave_queue(state, slot)
    else:
        leave_decodes(state, slot)
    if state.requests[slot]["pages"]:
        release(state, slot)
    free_slot(state, slot)
    survey(state)
    return int(slot)
