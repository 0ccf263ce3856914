"""Was the machine quiet? One point, measured again and again, answers."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

QUIET_RELATIVE_IQR = 0.03
QUIET_TREND = 0.02
# Below it quartiles and slope say more about luck than about the machine.
ENOUGH = 6


class SentinelVerdict(BaseModel):
    """quiet is None when there are too few measurements to tell."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    n: Annotated[int, Field(ge=0, description="sentinel iterations timed")]
    median_ms: Annotated[float | None, Field(description="their median")]
    relative_iqr: Annotated[float | None, Field(description="interquartile range over the median")]
    trend: Annotated[
        float | None, Field(description="change over the whole session by the median slope, over the median")
    ]
    quiet: Annotated[bool | None, Field(description="relative_iqr < 0.03 and |trend| < 0.02")]

    def title(self) -> str:
        """One line for people."""
        if self.relative_iqr is None or self.trend is None:
            return f"unknown: {self.n} sentinel iterations, {ENOUGH} are needed"
        word = "quiet" if self.quiet else "NOT quiet"
        return (
            f"{word}: relative IQR {self.relative_iqr:.1%} (limit {QUIET_RELATIVE_IQR:.0%}), trend "
            f"{self.trend:+.1%} (limit {QUIET_TREND:.0%}), {self.n} sentinel iterations"
        )


def judge(latency_ms: NDArray[np.float64], order: NDArray[np.int64]) -> SentinelVerdict:
    """Verdict on the sentinel rows of one session: latencies (m,) and their place in the session (m,).

    The trend is the Theil-Sen slope (median over pairs at different places), which one slow row cannot
    tilt, times the range of `order`.
    """
    m = len(latency_ms)
    span = int(order.max() - order.min()) if m else 0
    if m < ENOUGH or span == 0:
        median = float(np.median(latency_ms)) if m else None
        return SentinelVerdict(n=m, median_ms=median, relative_iqr=None, trend=None, quiet=None)
    low, middle, high = (float(q) for q in np.quantile(latency_ms, (0.25, 0.5, 0.75)))
    first, second = np.triu_indices(m, 1)
    apart = (order[second] - order[first]).astype(np.float64)
    pairs = apart != 0
    slopes = (latency_ms[second] - latency_ms[first])[pairs] / apart[pairs]
    relative_iqr = (high - low) / middle
    trend = float(np.median(slopes)) * span / middle
    return SentinelVerdict(
        n=m,
        median_ms=middle,
        relative_iqr=relative_iqr,
        trend=trend,
        quiet=relative_iqr < QUIET_RELATIVE_IQR and abs(trend) < QUIET_TREND,
    )
