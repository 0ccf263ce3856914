"""Random numbers by purpose: what one part of a workload draws does not move what another draws."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    ARRIVAL = 0
    APPLICATION = 1
    PROMPT = 2
    OUTPUT = 3
    BATCH_CLASS = 4
    PRIORITY = 5
    GUARD = 6


def stream(seed: int, purpose: Stream) -> np.random.Generator:
    """The first requests of a longer workload are those of a shorter one with the same seed."""
    return np.random.default_rng([seed, purpose])
