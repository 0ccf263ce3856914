"""The symptom rules on runs made to have, or not to have, what they look for."""

import numpy as np
import pytest

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.diagnose import Iterations, budget_too_high, budget_too_low, diagnose, of_log
from chunkfit.scheduler.dtypes import Status
from tests.support.runs import finished, never_started, requests_of

TARGET = 25.0
NO_GAPS = np.zeros(0)
PROMPTS = np.array([200] * 90 + [5000] * 10)


def iterations(latency_ms, prompt_tokens, decodes=8, chunk_tokens=0, waiting=0):
    count = len(latency_ms)
    columns = [np.broadcast_to(np.asarray(each), (count,)) for each in (decodes, chunk_tokens, prompt_tokens, waiting)]
    start_ms = np.concatenate(([0.0], np.cumsum(latency_ms)[:-1]))
    return Iterations(start_ms, np.asarray(latency_ms, dtype=float), *columns)


def test_spikes_with_long_prompts_mean_a_budget_too_high():
    long = np.arange(2000) % 50 == 0
    found = budget_too_high(iterations(np.where(long, 60.0, 12.0), np.where(long, 5000, 200)), PROMPTS, TARGET, NO_GAPS)
    assert found.found
    assert found.evidence["episodes_with_long_prompt"] == found.evidence["episodes"] == 40
    assert found.evidence["long_prompt_tokens"] == 200
    assert (found.evidence["over_target_with_long"], found.evidence["over_target_without"]) == (1.0, 0.0)
    assert "40 of 40 episodes over 25 ms" in found.says


def test_few_spikes_that_spoil_most_requests_are_a_reason_to_look():
    """One iteration in 200 is over the target: the P99 of iterations is in time, that of most requests is not."""
    long = np.arange(4000) % 200 == 0
    ran = iterations(np.where(long, 60.0, 12.0), np.where(long, 5000, 200))
    assert budget_too_high(ran, PROMPTS, TARGET, NO_GAPS).found is False
    found = budget_too_high(ran, PROMPTS, TARGET, np.array([60.0] * 40 + [12.0] * 60))
    assert found.found
    assert found.evidence["requests_over_target_share"] == 0.4
    assert "spoil the P99 gap of 40% of the requests" in found.says
    assert budget_too_high(ran, PROMPTS, TARGET, np.array([60.0] + [12.0] * 99)).found is False


def test_spikes_beside_other_things_do_not():
    rng = np.random.default_rng(0)
    long, slow = np.arange(2000) % 50 == 0, rng.random(2000) < 0.05
    found = budget_too_high(iterations(np.where(slow, 60.0, 12.0), np.where(long, 5000, 200)), PROMPTS, TARGET, NO_GAPS)
    assert found.found is False
    assert "not the long prompts'" in found.says


def test_a_run_under_its_target_has_no_symptom():
    found = budget_too_high(iterations(np.full(500, 24.0), 5000), PROMPTS, TARGET, NO_GAPS)
    assert found.found is False
    assert "P99 is in time" in found.says


def test_a_row_of_spikes_is_one_episode():
    """Sixty iterations over the target, all of one prompt: that is one observation."""
    latency = np.full(1000, 12.0)
    latency[100:160] = 60
    prompts = np.full(1000, 200)
    prompts[100:160] = 5000
    found = budget_too_high(iterations(latency, prompts), PROMPTS, TARGET, NO_GAPS)
    assert found.found is None
    assert found.evidence["episodes"] == 1


def test_iterations_without_decodes_stall_nobody():
    found = budget_too_high(iterations(np.full(100, 400.0), 5000, decodes=0), PROMPTS, TARGET, NO_GAPS)
    assert found.found is None
    mixed = iterations(np.tile([400.0, 12.0], 500), np.tile([5000, 200], 500), decodes=np.tile([0, 8], 500))
    assert budget_too_high(mixed, PROMPTS, TARGET, NO_GAPS).found is False


def starved(ttft_ms, latency_ms, chunk_tokens, waiting=5):
    """300 requests of 100 + 11 tokens, one a second: 110 tokens/s to compute; iterations of 1 decode over the run."""
    requests = requests_of(300, tpot_ms=TARGET)
    requests["prompt_tokens"] = np.tile([50, 100, 150], 100)
    results = finished(requests, ttft_ms, 10.0)
    count = int(300_000 / latency_ms)
    return iterations(np.full(count, latency_ms), 150, 1, chunk_tokens, waiting), requests, results


CLIMB = np.linspace(200, 4000, 300)


def test_climbing_ttft_with_sagging_throughput_and_room_means_a_budget_too_low():
    symptom = budget_too_low(*starved(CLIMB, 12.5, 0), TARGET)  # 80 tokens/s of 110
    assert symptom.found
    assert min(symptom.evidence[f"ttft_rise_{part}"] for part in ("short", "middle", "long")) > 1.5
    assert symptom.evidence["computed_tokens_per_s"] == pytest.approx(80, rel=0.02)
    assert symptom.evidence["offered_tokens_per_s"] == pytest.approx(110, rel=0.02)


def test_each_part_of_it_is_needed():
    steady = budget_too_low(*starved(np.full(300, 900.0), 12.5, 0), TARGET)
    assert steady.found is False
    keeping_up = budget_too_low(*starved(CLIMB, 12.5, 1), TARGET)  # 160 tokens/s
    assert keeping_up.found is False
    assert "no climb for all" in keeping_up.says
    full = budget_too_low(*starved(CLIMB, 24.0, 0), TARGET)
    assert full.found is False
    assert "overload" in full.says
    nobody_waits = budget_too_low(*starved(CLIMB, 12.5, 0, waiting=0), TARGET)
    assert nobody_waits.found is False


def test_a_climb_of_the_long_prompts_alone_is_no_climb_for_all():
    ttft = np.full(300, 500.0)
    ttft[2::3] = CLIMB[2::3]
    symptom = budget_too_low(*starved(ttft, 12.5, 0), TARGET)
    assert symptom.found is False
    assert symptom.evidence["ttft_rise_long"] > 1.5
    assert symptom.evidence["ttft_rise_short"] == pytest.approx(1)


def test_too_few_requests_say_nothing():
    ran, requests, results = starved(CLIMB, 12.5, 0)
    assert budget_too_low(ran, requests[:59], results[:59], TARGET).found is None


def test_both_rules_and_hits_do_not_count_as_prompt():
    _, requests, results = starved(CLIMB, 12.5, 0)
    requests["cached_tokens"] = 40  # 10, 60 and 110 tokens are left to compute
    long = np.arange(2000) % 50 == 0
    high, low = diagnose(iterations(np.where(long, 60.0, 12.0), np.where(long, 110, 60)), requests, results, TARGET)
    assert (high.rule, low.rule) == ("token budget too high", "token budget too low")
    assert high.found
    assert high.evidence["long_prompt_tokens"] == 60


def test_where_every_prompt_is_too_long_any_prompt_at_all_is_told():
    prefill = np.arange(2000) % 20 == 0
    ran = iterations(np.where(prefill, 60.0, 12.0), np.where(prefill, 4000, 0))
    found = budget_too_high(ran, np.full(100, 4000), TARGET, NO_GAPS)
    assert found.found
    assert found.evidence["long_prompt_tokens"] == 0


def test_decodes_that_are_slow_by_themselves_are_not_the_budget():
    prefill = np.arange(2000) % 20 == 0
    ran = iterations(np.where(np.arange(2000) % 3 == 0, 60.0, 12.0), np.where(prefill, 4000, 0))
    assert budget_too_high(ran, np.full(100, 4000), TARGET, NO_GAPS).found is False


def test_a_prompt_in_every_iteration_leaves_nothing_to_compare():
    spikes = np.where(np.arange(2000) % 50 == 0, 60.0, 12.0)
    assert budget_too_high(iterations(spikes, 200), np.full(50, 200), TARGET, NO_GAPS).found is None


LOG = np.dtype([("start_ms", "f8"), ("latency_ms", "f8"), ("decodes", "i4"), ("chunk_tokens", "i4"), ("queued", "i4")])


def test_a_log_is_told_whose_chunks_it_has():
    """250 tokens in chunks of 100, an iteration of decodes, then 40 and 60 tokens in one."""
    log = np.zeros(6, dtype=LOG)
    log["start_ms"], log["latency_ms"] = 10.0 * np.arange(6), 10
    log["decodes"], log["queued"] = 1, [1, 1, 1, 0, 2, 0]
    log["chunk_tokens"] = [100, 100, 50, 0, 100, 0]
    requests = requests_of(4, prompt_tokens=[300, 40, 60, 500], cached_tokens=[50, 0, 0, 0])
    results = finished(requests, np.array([30.0, 50, 50, 0]) - requests["arrival_ms"], 10.0)
    never_started(results, [3], Status.UNFINISHED)
    found = of_log(log, requests, results)
    assert found.prompt_tokens.tolist() == [250, 250, 250, 0, 60, 0]
    assert found.waiting.tolist() == [1, 1, 1, 0, 2, 0]
    assert found.chunk_tokens.tolist() == [100, 100, 50, 0, 100, 0]
    nothing = of_log(log[:0], requests[:0], results[:0])
    assert len(nothing.start_ms) == 0


def test_columns_of_one_length():
    with pytest.raises(UsageError, match="different lengths"):
        Iterations(np.zeros(3), np.zeros(3), np.zeros(3, int), np.zeros(2, int), np.zeros(3, int), np.zeros(3, int))
