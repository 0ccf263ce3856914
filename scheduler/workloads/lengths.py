"""Laws of prompt and output lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Z90 = 1.2815515655446004  # the normal distribution's 0.9 quantile
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lognormal:
    """exp(log median + sigma N), rounded, at least 1 token."""

    median_tokens: float
    sigma: float

    @classmethod
    def of_mean_p90(cls, mean_tokens: float, p90_tokens: float) -> Lognormal:
        """The narrower of the two laws with this mean and 0.9 quantile.

        log(p90 / mean) = Z90 sigma - sigma^2 / 2 has a root up to a ratio of 2.27. Raises ValueError beyond.
        """
        room = Z90**2 - 2 * math.log(p90_tokens / mean_tokens)
        if room < 0 or p90_tokens < mean_tokens:
            raise ValueError(f"no lognormal law has mean {mean_tokens:g} and P90 {p90_tokens:g}")
        sigma = Z90 - math.sqrt(room)
        return cls(mean_tokens * math.exp(-(sigma**2) / 2), sigma)

    @classmethod
    def of_median_p90(cls, median_tokens: float, p90_tokens: float) -> Lognormal:
        return cls(median_tokens, math.log(p90_tokens / median_tokens) / Z90)

    def tokens(self, normal: NDArray[np.float64]) -> Ints:
        """One length for each standard normal draw."""
        return np.maximum(np.rint(self.median_tokens * np.exp(self.sigma * normal)), 1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Application:
    """One application of a mix: its share of the requests and its laws."""

    share: float
    prompt: Lognormal
    output: Lognormal


# SLOWeave's simulator, as reconstructed: its papers print medians of some, the rest lands near its figures. Where
# nothing is known (outputs of chat, lengths of bursty) they are those of mixed.
_OUTPUT = Lognormal(77, 0.55)
CHAT = (Application(1.0, Lognormal(256, 0.8), _OUTPUT),)
MIXED = (Application(0.72, Lognormal(560, 0.5), _OUTPUT), Application(0.28, Lognormal(2100, 0.5), _OUTPUT))
LONG = (Application(1.0, Lognormal(3574, 0.38), Lognormal(145, 0.63)),)

# SlidingServe's Table 2 prints means and P90s. No lognormal law has ShareGPT's prompts (357, 1724: P90 is at most 2.27
# times the mean), so that one figure is read as a median.
_DIALOGUE = (Lognormal.of_median_p90(357, 1724), Lognormal.of_mean_p90(89, 184))
_ARXIV_V1 = (Lognormal.of_mean_p90(3253, 4382), Lognormal.of_mean_p90(356, 542))
_ARXIV_V2 = (Lognormal.of_mean_p90(6267, 7567), Lognormal.of_mean_p90(423, 623))
SHAREGPT = (Application(1.0, *_DIALOGUE),)
ARXIV_V1 = (Application(1.0, *_ARXIV_V1),)
ARXIV_V2 = (Application(1.0, *_ARXIV_V2),)
MIXED_V1 = (Application(3 / 4, *_DIALOGUE), Application(1 / 4, *_ARXIV_V1))
MIXED_V2 = (Application(5 / 6, *_DIALOGUE), Application(1 / 6, *_ARXIV_V2))
