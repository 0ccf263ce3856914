"""The state of an online calibrator as a file: strict JSON, written by rename, tied to one table.

History: 1 first.
"""

from __future__ import annotations

from os import PathLike
from typing import Annotated, Literal

from pydantic import Field

from ...files.errors import CalibrationStateError
from ...files.strict import Count, Sha256, Strict, read_model, write_model
from .tracking import WINDOW


class ShiftV1(Strict):
    """`drift.PageHinkley`"""

    count: Count
    mean: float
    total: float
    lowest: float


class StateV1(Strict):
    """Everything an `OnlineCalibrator` knows but its past events."""

    format: Literal["chunkfit.calibration-state"] = "chunkfit.calibration-state"
    schema_version: Literal[1] = 1
    table_sha256: Sha256 = Field(description="content_sha256 of the table that is calibrated")
    observations: Count
    misses: Count
    outside: Count
    over_expected: Annotated[list[float], Field(min_length=WINDOW, max_length=WINDOW)] = Field(
        description="log(T / E) of the last iterations, oldest first"
    )
    over_bound: Annotated[list[float], Field(min_length=WINDOW, max_length=WINDOW)] = Field(
        description="log(T / U) of the same, with the table's own bound"
    )
    tail: float
    tail_before: float | None = Field(description="tail before the open alarm; null: none is open")
    alarm_age: Count
    cusum: Annotated[float, Field(ge=0)]
    shift: ShiftV1


def write_state(state: StateV1, path: str | PathLike[str]) -> None:
    """Raises StorageError; an existing file survives a failure."""
    write_model(state, path)


def read_state(path: str | PathLike[str], table_sha256: str) -> StateV1:
    """Raises CalibrationStateError for a file that is not exactly what was written, or is of another table."""
    state = read_model(path, StateV1, CalibrationStateError, "a saved calibration state", "start without it")
    if state.table_sha256 != table_sha256:
        raise CalibrationStateError(
            f"{path}: $.table_sha256 is {state.table_sha256[:12]}..., the table's content_sha256 is "
            f"{table_sha256[:12]}...; a state speaks for one table: load that one, or start without the state"
        )
    return state
