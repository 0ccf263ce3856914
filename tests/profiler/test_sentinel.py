"""Verdicts on known series."""

import numpy as np
import pytest

from chunkfit.profiler.condition import judge

ORDER = np.repeat(np.arange(0, 1000, 20), 3)
NOISE = np.random.default_rng(0).standard_normal(len(ORDER))


def test_a_steady_machine_is_quiet():
    verdict = judge(10 * np.exp(0.005 * NOISE), ORDER)
    assert verdict.quiet
    assert verdict.n == 150
    assert verdict.median_ms == pytest.approx(10, rel=0.01)
    assert "quiet: relative IQR" in verdict.title()


def test_spread_and_drift_are_told_apart():
    spread = judge(10 * np.exp(0.03 * NOISE), ORDER)
    assert spread.quiet is False
    assert spread.relative_iqr == pytest.approx(0.04, rel=0.3)
    drift = judge(10 * (1 + 0.025 * ORDER / 1000), ORDER)
    assert drift.quiet is False
    assert drift.trend == pytest.approx(0.025, rel=0.05)
    assert drift.relative_iqr < 0.03
    assert "NOT quiet" in drift.title()


def test_one_slow_row_in_ten_tilts_nothing():
    latency = 10 * np.exp(0.005 * NOISE)
    latency[-15:] *= 40
    assert judge(latency, ORDER).quiet


def test_too_few_rows_give_no_verdict():
    for count in (0, 3, 5):
        verdict = judge(np.full(count, 10.0), np.arange(count))
        assert verdict.quiet is None
        assert verdict.title().startswith("unknown")
    assert judge(np.full(9, 10.0), np.zeros(9, dtype=np.int64)).quiet is None
