"""How long a request's first token takes with the device to itself: what a `slowdown` target is a multiple of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...files.errors import OutOfDomainError
from ...tables.fixed_point import to_ms
from ..compiled import compiled
from .look_up import bound_ticks
from .record import OUTSIDE, Cost

Floats = NDArray[np.float64]


@compiled
def _alone_ticks(cost: Cost, prompts: Any, cached: Any, chunk_tokens: int, found: Any) -> int:
    """Fills `found`; returns the first row that the cost does not hold, or OUTSIDE where it holds all."""
    for i in range(len(prompts)):
        done = cached[i]
        while done < prompts[i]:
            chunk = min(chunk_tokens, prompts[i] - done)
            ticks = bound_ticks(cost, 0, 0, 0, chunk, done, 1)
            if ticks == OUTSIDE:
                return i
            found[i] += ticks
            done += chunk
    return OUTSIDE


def alone_ms(cost: Cost, requests: NDArray[Any], chunk_tokens: int) -> Floats:
    """(m,) ms to compute each prompt of WORKLOAD rows, cached prefix apart, in chunks of up to `chunk_tokens`.

    A formula takes each prompt whole where chunk_tokens allows. Raises OutOfDomainError naming the row.
    """
    found = np.zeros(len(requests), np.int64)
    prompts = requests["prompt_tokens"].astype(np.int64)
    cached = requests["cached_tokens"].astype(np.int64)
    row = int(_alone_ticks(cost, prompts, cached, chunk_tokens, found))
    if row != OUTSIDE:
        raise OutOfDomainError(
            f"row {row} (from 0): a prompt of {prompts[row]:,} tokens, {cached[row]:,} of them cached, lies "
            "outside of the true cost, which `slowdown` needs for its time alone: cut prompts (max_prompt=N), say "
            "ttft=1s instead, or take a table of a larger domain"
        )
    return to_ms(found)
