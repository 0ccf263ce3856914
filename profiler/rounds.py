"""The part of a fit session that is chosen while it runs: how much of it, when it stops, how large a round is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..files.strict import Frozen

START_SHARE = 1 / 3
START_AT_LEAST = 60  # points: below about 20 a scene there is nothing to choose by
# A round has this share of the points measured before it: the later a round, the better it is known where to go.
ROUND_SHARE = 1 / 3
ROUND_AT_LEAST = 10
# What choosing a round takes, about: 0.6 s of one core with 300 points, 0.8 s with 1,000 (AMD EPYC).
CHOICE_S = 1.0


class Rounds(Frozen):
    """How many points may be chosen beyond the plan's own, which serve as the space-filling start."""

    first_id: Annotated[int, Field(ge=0, description="point_id of the first chosen point")]
    points: Annotated[int, Field(ge=1, description="chosen at most")]
    repeats: Annotated[int, Field(ge=1)]
    tolerance: Annotated[float, Field(ge=0, description="held-out relative error of every cell at which to stop")]


def start_points(fit_points: int) -> int:
    """How many of `fit_points` are drawn beforehand when the others are chosen."""
    return min(fit_points, max(round(START_SHARE * fit_points), START_AT_LEAST))


def round_points(measured: int, left: int) -> int:
    """How many points to choose after `measured` ones when `left` more may be; a small rest goes with the last."""
    wanted = max(round(ROUND_SHARE * measured), ROUND_AT_LEAST)
    return left if left < wanted * (1 + ROUND_SHARE) else wanted


def rounds_to_come(measured: int, left: int) -> int:
    """How often will be asked for points, the time included at which there are none."""
    count = 1
    while left > 0:
        now = round_points(measured, left)
        measured, left, count = measured + now, left - now, count + 1
    return count
