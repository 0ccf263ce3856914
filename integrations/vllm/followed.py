"""When each request of an engine got its tokens, and which of them came late."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from ...scheduler.serving_state import NEVER


@dataclass(slots=True)
class Followed:
    """Times in ticks. schedule: deadline of the first token; when that came late, its time."""

    arrival: int
    first_deadline: int
    tpot: int
    schedule: int
    last_token: int
    begun: bool = False


class FollowedRequests:
    """By request id. misses: tokens later than their request's target, the first ones apart."""

    def __init__(self, leave_out_late: bool) -> None:
        """leave_out_late: a request whose first token is late has no schedule from then on."""
        self._leave_out_late = leave_out_late
        self._by_name: dict[str, Followed] = {}
        self.misses = 0
        self.late_first_tokens = 0

    def __len__(self) -> int:
        return len(self._by_name)

    def __getitem__(self, name: str) -> Followed:
        return self._by_name[name]

    def join(self, name: str, arrival: int, ttft: int, tpot: int) -> None:
        """ttft, tpot: targets in ticks. One that is there already (it gets further input) stays."""
        first = arrival + ttft
        self._by_name.setdefault(name, Followed(arrival, first, tpot, first, arrival))

    def token(self, name: str, now: int) -> None:
        """Tokens of a request have arrived; several at once are one event to whoever reads them."""
        request = self._by_name.get(name)
        if request is None:  # it was forgotten; an engine must not end for that
            return
        if request.begun:
            self.misses += now - request.last_token > request.tpot
        else:
            request.begun = True
            if now > request.schedule:
                self.late_first_tokens += 1
                request.schedule = NEVER if self._leave_out_late else now
        request.last_token = now

    def keep(self, names: Container[str]) -> None:
        """Forgets all others."""
        self._by_name = {name: request for name, request in self._by_name.items() if name in names}
