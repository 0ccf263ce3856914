"""The promise check on logs written by hand."""

import numpy as np
import pytest
from support.live_runs import synthetic_table

from chunkfit.scheduler.live.bound_coverage import bound_coverage_of
from chunkfit.scheduler.live.log import LIVE_ITERATION, csv_text


def log_of(rows, **given):
    """Mixed iterations of 10 ms under a bound of 12 and 20 ms of slack, but for what is given."""
    log = np.zeros(rows, LIVE_ITERATION)
    fields = {
        "engine_ms": 10.0,
        "latency_ms": 10.5,
        "expected_ms": 10.0,
        "bound_ms": 12.0,
        "table_bound_ms": 12.0,
        "slack_ms": 20.0,
        "decodes": 4,
        "chunk_tokens": 16,
        "decision_us": 5.0,
    }
    for name, value in (fields | given).items():
        log[name] = value
    return log


def test_misses_with_their_interval():
    engine = np.full(400, 10.0)
    engine[:6] = 13.0
    found = bound_coverage_of(log_of(400, engine_ms=engine, latency_ms=engine + 1.5), synthetic_table())
    loop = found.closed_loop
    assert (loop.rows, loop.missed, loop.coverage) == (400, 6, 1 - 6 / 400)
    # Clopper & Pearson: 394 of 400.
    assert (loop.low, loop.high) == (pytest.approx(0.96765, abs=1e-4), pytest.approx(0.99448, abs=1e-4))
    assert found.with_host.missed == 6
    assert bound_coverage_of(log_of(9, latency_ms=12.5), synthetic_table()).with_host.missed == 9
    assert found.promised == 0.99
    assert found.marginal_miss == 1 - synthetic_table().document.test.coverage.coverage


def test_only_iterations_with_decodes_and_a_chunk_are_chosen():
    log = log_of(4, engine_ms=13.0, decodes=[0, 4, 4, 4], chunk_tokens=[16, 0, 16, 16])
    found = bound_coverage_of(log, synthetic_table())
    assert (found.closed_loop.missed, found.chosen.rows, found.chosen.missed) == (4, 2, 2)
    assert {scene: error.rows for scene, error in found.errors.items()} == {"decode": 1, "prefill": 1, "mixed": 2}
    assert found.errors["mixed"].median_percent == pytest.approx(100 * 3 / 13)
    assert (found.worst_under_ms, found.worst_under_percent) == (3.0, pytest.approx(100 * 3 / 13))


def test_the_budget_is_used_up_to_the_slack():
    log = log_of(4, latency_ms=[10.0, 15.0, 20.0, 25.0], slack_ms=[20.0, 20.0, 20.0, 20.0])
    found = bound_coverage_of(log, synthetic_table())
    assert (found.budget_used_p50, found.budget_used_p99, found.over_budget) == (0.75, 1.25, 0.25)
    late = bound_coverage_of(log_of(2, slack_ms=[-1.0, np.nan]), synthetic_table())  # what is late already is no budget
    assert late.over_budget is None


def test_what_the_table_does_not_hold_is_counted_apart():
    found = bound_coverage_of(log_of(3, expected_ms=[np.nan, 10.0, 10.0]), synthetic_table())
    assert (found.outside, found.closed_loop.rows) == (1, 2)


def test_a_calibrator_s_bound_and_the_table_s_are_counted_apart():
    found = bound_coverage_of(log_of(5, engine_ms=13.0, bound_ms=14.0), synthetic_table())
    assert (found.closed_loop.missed, found.by_table.missed) == (0, 5)


def test_no_iteration_is_no_figure():
    found = bound_coverage_of(log_of(0), synthetic_table())
    assert (found.closed_loop.coverage, found.closed_loop.low, found.closed_loop.high) == (None, 0.0, 1.0)
    assert (found.decision_p50_us, found.worst_under_ms, found.errors) == (None, None, {})


def test_decisions_with_many_decodes_are_told_apart():
    found = bound_coverage_of(log_of(2, decodes=[4, 128], decision_us=[5.0, 9.0]), synthetic_table())
    assert found.decision_many_p50_us == 9.0
    assert bound_coverage_of(log_of(1), synthetic_table()).decision_many_p50_us is None


def test_the_log_as_csv():
    text = csv_text(log_of(2), policy="sloweave:prefills=1,aging=20ms")
    head, first, second = text.splitlines()
    assert head.startswith("policy,start_ms,latency_ms")
    assert first == second
    assert first.startswith('"sloweave:prefills=1,aging=20ms",0,10.5,12,20,4,')
    assert csv_text(log_of(1), header=False, policy="full").count("\n") == 1
