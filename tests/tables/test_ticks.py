"""Ticks: bounds round up, expected times to the nearest, budgets down."""

import numpy as np
import pytest

from chunkfit.tables.grid import budget_ticks, nearest_ticks, ticks_up, to_ms

TICK = 2.0**-14


def test_rounding_directions():
    ms = np.array([0.0, 0.4 * TICK, 0.6 * TICK, TICK, 3.2 * TICK])
    assert ticks_up(ms).tolist() == [0, 1, 1, 1, 4]
    assert nearest_ticks(ms).tolist() == [0, 0, 1, 1, 3]
    assert to_ms(ticks_up(ms)).tolist() == [0.0, TICK, TICK, TICK, 4 * TICK]


def test_a_budget_holds_exactly_what_it_reaches():
    assert budget_ticks(5 * TICK) == 5
    assert budget_ticks(np.nextafter(5 * TICK, 0)) == 4
    assert budget_ticks(-3.0) == -1
    assert budget_ticks(float("inf")) > 2**40
    with pytest.raises(ValueError, match="NaN"):
        budget_ticks(float("nan"))
