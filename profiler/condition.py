"""In what state a device measured a point, and whether that makes the point suspect."""

from __future__ import annotations

from bisect import insort
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# The clock is not held down by these: nothing to do, and a clock that somebody chose (it is in the fingerprint).
HARMLESS = frozenset({"gpu_idle", "applications_clocks_setting"})
CLOCK_DROP = 0.97  # of the session's usual SM clock; below it a point is suspect (clocks move in steps of 1%)
ENOUGH_CLOCKS = 10  # points before there is a usual clock
# Measured at most so often, and no more repeats in this session once so many points in a row stayed suspect
# through all of them: a card at its power cap is always throttled.
MOST_TRIES = 3
GIVE_UP_AFTER = 5

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class DeviceState(BaseModel):
    """Read right after a point's last iteration; None: the device does not say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class Condition(BaseModel):
    """A recorded point's: flagged when it was measured while the device throttled, after `tries` measurements."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
