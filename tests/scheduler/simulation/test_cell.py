"""A cell says itself whole, and equal cells have equal reports."""

import numpy as np
import pytest

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.cost.named_costs import policy_cost
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.serving_metrics import measure
from chunkfit.scheduler.serving_state import Limits
from chunkfit.scheduler.simulate import simulate
from chunkfit.scheduler.simulation.cell import Cell, Setting, cell, play, run_cell
from chunkfit.scheduler.workloads.registry import workload
from tests.support.studies import COSTS, SETTING, SMALL, TABLE


def test_texts_are_written_in_full():
    one = cell("fixed_64", "mixed:rate=60", 3, SETTING, tpot="10ms")
    assert one.policy == "fixed-64"
    assert "rate=60" in one.workload
    assert "tpot=10ms" in one.workload
    assert "max_prompt=8192" in one.workload
    assert one == cell("fixed:chunk_tokens=64", one.workload, 3, SETTING)
    assert Cell.model_validate_json(one.model_dump_json()) == one


def test_another_file_is_another_cell(tmp_path):
    file = tmp_path / "l.csv"
    file.write_text("num_prefill_tokens,num_decode_tokens\n100,10\n")
    text = f"lengths:file={file},requests=20,rate=5,ttft=1s,tpot=25ms"
    one = cell("full", text, 0, SETTING)
    file.write_text("num_prefill_tokens,num_decode_tokens\n100,11\n")
    assert cell("full", text, 0, SETTING) != one
    with pytest.raises(UsageError, match=r"no\.csv: cannot be read"):
        cell("full", text.replace("l.csv", "no.csv"), 0, SETTING)


def test_the_report_is_of_the_run_that_the_cell_says():
    one = cell("sloweave:prefills=1", SMALL, 1, Setting("sloweave", "sloweave", "mean-gap", 16, 20_000))
    report = run_cell(one, COSTS)
    made, cost = workload(one.workload, 1), COSTS["sloweave"].cost
    run = simulate(made.requests, policy(one.policy), cost, cost, Limits.within(cost, 16, 20_000))
    assert report.metrics == measure(made.requests, run.results, "mean_gap", run.makespan_ms)
    assert report.counts["iterations"] == run.iterations
    assert (report.policy, report.costs.true, report.workload.seed) == ("sloweave:prefills=1", "sloweave", 1)
    assert report.policy_options["margin"] == "0/0/0/0"
    assert report == run_cell(one, COSTS)


def test_decisions_take_the_time_that_is_said():
    one = cell("sloweave", SMALL, 0, Setting("sloweave", "sloweave", decision_us=500.0))
    log = play(one, COSTS, log=True).run.log
    assert (log["latency_ms"] - log["bound_ms"] == 0.5).all()
    scheduling = run_cell(one, COSTS).scheduling
    assert (scheduling.mean_us, scheduling.added, scheduling.decisions) == (500.0, True, len(log))


def test_noise_is_of_the_seed_and_of_the_truth_alone():
    noisy = play(cell("sloweave", SMALL, 0, SETTING), COSTS, log=True).run.log
    ratios = noisy["latency_ms"] / noisy["bound_ms"]
    assert 0.02 < np.log(ratios).std() < 0.04
    exact = play(cell("sloweave", SMALL, 0, Setting("sloweave", "sloweave")), COSTS, log=True).run.log
    assert (exact["latency_ms"] == exact["bound_ms"]).all()


def test_the_limits_are_those_of_both_costs():
    """A belief that holds less than the truth may not be asked for more."""
    named = policy_cost(str(TABLE))
    report = run_cell(
        cell("sloweave", "chat:requests=20,rate=20", 0, Setting(named.name, "sloweave")), {**COSTS, named.name: named}
    )
    assert report.over_all.finished == 20
    assert report.device is None


def test_slowdown_targets_come_from_the_truth_without_its_factor():
    text = "chat:requests=20,rate=5,slowdown=5x,ttft_floor=1us"
    biased = policy_cost("sloweave:factor=2x")
    costs = {**COSTS, biased.name: biased}
    exact = play(cell("full", text, 0, Setting("sloweave", "sloweave")), costs).workload.requests
    slower = play(cell("full", text, 0, Setting("sloweave", biased.name)), costs).workload.requests
    expected = 5 * (0.35 + 0.40 + 0.006 * exact["prompt_tokens"])
    assert exact["ttft_ms"] == pytest.approx(expected, abs=1e-3)
    assert (slower["ttft_ms"] == exact["ttft_ms"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sloweve", SMALL), "policy 'sloweve' is unknown"),
        (("full", "mixd"), "workload 'mixd' is unknown"),
        (("full", "mixed:requests=0"), "requests '0'"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(arguments, message):
    with pytest.raises(UsageError, match=message):
        cell(*arguments, 0, SETTING)


@pytest.mark.parametrize("given", [{"criterion": "nice"}, {"max_running": 0}, {"kv_tokens": 0}])
def test_an_impossible_setting_is_refused(given):
    with pytest.raises(UsageError, match=r"criterion 'nice' is unknown|expected 1 or more"):
        Setting("sloweave", "sloweave", **given)
