"""What a scheduler inside vLLM did, as whole numbers that travel with vLLM's own statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

# vLLM sends one mapping of names to whole numbers from the scheduler to its stat loggers, `waiting_lora_adapters`,
# which is empty in an engine without LoRA. Keys of ours begin so.
PREFIX = "chunkfit_"


@dataclass(slots=True)
class Counters:
    """The first four are of the newest iteration, the others since the start; 0 where there is no such value."""

    chunk_tokens: int = 0
    budget_us: int = 0  # to the earliest deadline of a decode
    bound_us: int = 0  # of the chosen batch
    decision_us: int = 0
    decisions: int = 0
    decision_us_total: int = 0
    prompt_tokens_total: int = 0
    misses: int = 0  # tokens later than their request's target
    late_first_tokens: int = 0
    over_bound: int = 0  # iterations that took longer than their bound
    outside: int = 0  # decisions outside of the measured domain
    by_order: int = 0  # decisions whose batch was not measured, with the bound of one with more work

    def sent(self) -> dict[str, int]:
        return {PREFIX + field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def received(cls, numbers: Mapping[str, int]) -> Counters | None:
        """None where these are not ours."""
        names = [field.name for field in fields(cls)]
        if not all(PREFIX + name in numbers for name in names):
            return None
        return cls(**{name: numbers[PREFIX + name] for name in names})

    def title(self) -> str:
        """One line for a log."""
        mean = self.decision_us_total / max(1, self.decisions)
        return (
            f"chunk {self.chunk_tokens} tokens, budget {self.budget_us / 1e3:.1f} ms, "
            f"bound {self.bound_us / 1e3:.1f} ms; {self.misses} late tokens, {self.late_first_tokens} late first "
            f"tokens, {self.over_bound} iterations over their bound, {self.outside} of {self.decisions} decisions "
            f"outside the table and {self.by_order} by order, {mean:.0f} us each"
        )
