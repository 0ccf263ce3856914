"""Device state at each point, throttling, and the sentinel: one point measured again and again in a session."""

from __future__ import annotations

from bisect import insort
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..files.strict import Frozen, Strict

# The clock is not held down by these: nothing to do, and a clock that somebody chose (it is in the fingerprint).
HARMLESS = frozenset({"gpu_idle", "applications_clocks_setting"})
CLOCK_DROP = 0.97  # of the session's usual SM clock; below it a point is suspect (clocks move in steps of 1%)
ENOUGH_CLOCKS = 10  # points before there is a usual clock
# Measured at most so often, and no more repeats in this session once so many points in a row stayed suspect
# through all of them: a card at its power cap is always throttled.
MOST_TRIES = 3
GIVE_UP_AFTER = 5

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class DeviceState(Frozen):
    """Read right after a point's last iteration; None: the device does not say."""

    sm_clock_mhz: Number | None = None
    memory_clock_mhz: Number | None = None
    temperature_c: Number | None = None
    power_w: Number | None = None
    throttle: Annotated[
        tuple[str, ...] | None, Field(description="why the clock is where it is, in NVML's words; empty: nothing")
    ] = None

    def throttle_text(self) -> str:
        """`unknown`, `none`, or the reasons joined by commas."""
        return "unknown" if self.throttle is None else ",".join(self.throttle) or "none"


class Condition(Frozen):
    """A recorded point's: flagged when it was measured while the device throttled, after `tries` measurements."""

    state: DeviceState = DeviceState()
    flagged: bool = False
    tries: Annotated[int, Field(ge=1)] = 1


class ThrottleWatch:
    """Judges the points of one session as they come."""

    def __init__(self) -> None:
        self._clocks: list[float] = []
        self._lost_in_a_row = 0

    def flagged(self, state: DeviceState) -> bool:
        """A reason other than HARMLESS, or an SM clock under CLOCK_DROP of the median of the session so far.

        Unknown values flag nothing.
        """
        usual = self._clocks[len(self._clocks) // 2] if len(self._clocks) >= ENOUGH_CLOCKS else 0.0
        if state.sm_clock_mhz is not None:
            insort(self._clocks, state.sm_clock_mhz)
            if state.sm_clock_mhz < CLOCK_DROP * usual:
                return True
        return bool(set(state.throttle or ()) - HARMLESS)

    def worth_another(self, flagged: bool, tries: int) -> bool:
        """Whether a point that was measured `tries` times is to be measured again. Asked after each time."""
        if not flagged:
            self._lost_in_a_row = 0
            return False
        if tries >= MOST_TRIES:
            self._lost_in_a_row += 1
            return False
        return self._lost_in_a_row < GIVE_UP_AFTER


QUIET_RELATIVE_IQR = 0.03
QUIET_TREND = 0.02
# Below it quartiles and slope say more about luck than about the machine.
ENOUGH = 6


class SentinelVerdict(Strict):
    """quiet is None when there are too few measurements to tell."""

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
    # Heavy, and not needed by the processes that measure.
    from scipy.stats import theilslopes

    # Its interval, which is not read, has no variance where most rows are alike.
    with np.errstate(invalid="ignore"):
        slope = float(theilslopes(latency_ms, order)[0])
    relative_iqr = (high - low) / middle
    trend = slope * span / middle
    return SentinelVerdict(
        n=m,
        median_ms=middle,
        relative_iqr=relative_iqr,
        trend=trend,
        quiet=relative_iqr < QUIET_RELATIVE_IQR and abs(trend) < QUIET_TREND,
    )
