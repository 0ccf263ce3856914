"""`chunkfit diagnose` on runs that have a symptom, on logs of others, and on what is no log."""

import numpy as np
import pytest

from chunkfit.scheduler.run_files import save_run
from chunkfit.scheduler.simulation.cell import Setting, cell, play, report_of
from tests.support.answer import Answer
from tests.support.studies import COSTS

EXACT = Setting("sloweave", "sloweave")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of a budget that is too low and of one that is too high."""
    folder = tmp_path_factory.mktemp("runs")
    for name, policy in (("low", "fixed-64"), ("high", "full")):
        one = cell(policy, "mixed:requests=600,rate=60", 0, EXACT)
        played = play(one, COSTS, log=True)
        report = report_of(one, COSTS, played)
        save_run(folder / name, report, played.workload.requests, played.run.results, played.run.log)
    return folder


def found(answer):
    return {each["rule"].removeprefix("token budget too "): each["found"] for each in answer.json["symptoms"]}


def test_a_wrong_budget_is_told_with_its_evidence(runs):
    assert found(Answer("diagnose", runs / "low", "--json")) == {"high": False, "low": True}
    high = Answer("diagnose", runs / "high" / "run.json", "--json")
    assert found(high) == {"high": True, "low": False}
    evidence = high.json["symptoms"][0]["evidence"]
    assert evidence["over_target_with_long"] > 3 * evidence["over_target_without"]
    shown = Answer("diagnose", runs / "high")
    assert shown.code == 0
    assert "token budget too high: found:" in shown.out
    assert "policy's cost sloweave" in shown.out
    assert found(Answer("diagnose", runs / "high", "--tpot", "1s", "--json"))["high"] is False


def test_logs_of_others_are_read_through_a_map(runs, tmp_path):
    lines = (runs / "high" / "iterations.csv").read_text().splitlines()
    start, latency, *_ = (lines[0].split(",").index(name) for name in ("start_ms", "latency_ms"))
    seconds = [lines[0].replace("start_ms", "ts").replace("latency_ms", "dt").replace("queued", "waiting")]
    for line in lines[1:]:
        cells = line.split(",")
        cells[start], cells[latency] = (repr(float(cells[at]) / 1000) for at in (start, latency))
        seconds.append(",".join(cells))
    (tmp_path / "steps.csv").write_text("\n".join(seconds) + "\n")
    asked = ("diagnose", tmp_path / "steps.csv", "--requests", runs / "high" / "requests.csv", "--json")
    told = Answer(*asked, "--map", "start_ms=ts*1000,latency_ms=dt*1000,queued=waiting")
    assert told.code == 0, told.err
    own = Answer("diagnose", runs / "high", "--json").json
    assert told.json["iterations"] == own["iterations"]
    assert told.json["symptoms"][0]["evidence"] == pytest.approx(own["symptoms"][0]["evidence"])


def test_one_run_of_a_log_of_several(runs, tmp_path):
    for name in ("iterations.csv", "requests.csv"):
        lines = []
        for run in ("low", "high"):
            header, *rows = (runs / run / name).read_text().splitlines()
            lines += [f"{header},run"] * (not lines) + [f"{row},{run}" for row in rows]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    told = Answer("diagnose", tmp_path, "--where", "run=high", "--json").json
    assert told["symptoms"] == Answer("diagnose", runs / "high", "--json").json["symptoms"]
    done = Answer("diagnose", tmp_path, "--where", "run=none")
    assert (done.code, "expected at least one iteration" in done.err) == (1, True)


def test_a_run_too_short_to_say_is_inconclusive(runs, tmp_path):
    for name in ("iterations.csv", "requests.csv"):
        lines = (runs / "high" / name).read_text().splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[:20]))
    done = Answer("diagnose", tmp_path, "--tpot", "5ms")
    assert done.code == 3
    assert done.out.count("cannot say") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["low", "--requests", "x.csv"], 2, "a run's folder has its own; leave it out"),
        (["low/iterations.csv"], 2, "an iteration log without --requests"),
        (["low/iterations.csv", "--requests", "low/iterations.csv"], 1, "column arrival_ms: not there"),
        (["low/iterations.csv", "--requests", "low/none.csv"], 2, "none.csv: cannot be read"),
        (["low/iterations.csv", "--requests", "low/requests.csv", "--tpot", "25"], 2, "a number with its unit"),
        (["low/iterations.csv", "--requests", "low/requests.csv", "--map", "begin=ts"], 2, "'begin' is unknown"),
        (["low/iterations.csv", "--requests", "low/requests.csv", "--map", "cached_tokens=hits"], 2, "neither log has"),
        (["nothing"], 2, "without --requests"),
    ],
)
def test_what_is_no_run_is_refused(runs, arguments, code, message):
    paths = [runs / each if "/" in each or each in ("low", "nothing") else each for each in arguments]
    done = Answer("diagnose", *paths)
    assert done.code == code
    assert message in done.err
    assert not done.out


def test_requests_without_a_target_need_one(runs, tmp_path):
    rows = np.genfromtxt(runs / "low" / "requests.csv", delimiter=",", names=True)
    names = ("arrival_ms", "prompt_tokens", "output_tokens", "first_token_ms")
    lines = [",".join(repr(float(row[name])) for name in names) for row in rows]
    (tmp_path / "requests.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    asked = ("diagnose", runs / "low" / "iterations.csv", "--requests", tmp_path / "requests.csv")
    done = Answer(*asked)
    assert (done.code, "no tpot_ms in it; expected --tpot" in done.err) == (2, True)
    assert found(Answer(*asked, "--tpot", "25ms", "--json")) == {"high": False, "low": True}
