"""A row of a log: whether it says a value at all."""

import math

import pytest

from chunkfit.files.records import Record


@pytest.mark.parametrize(
    ("value", "says"), [(0, True), ("0", True), (False, True), ("", False), (" ", False), ("NaN", False), (None, False)]
)
def test_an_empty_cell_and_nan_say_nothing(value, says):
    assert Record("log", "row 0", {"x": value}).says("x") is says


def test_a_missing_column_and_a_float_nan_say_nothing():
    assert not Record("log", "row 0", {}).says("x")
    assert not Record("log", "row 0", {"x": math.nan}).says("x")
