"""`chunkfit simulate`, `capacity` and `sensitivity`: what they answer is what the library says, kept and resumed."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from chunkfit.cli import study_options as studying
from chunkfit.cli.study_options import variants
from chunkfit.files.errors import UsageError
from chunkfit.files.specs import split_list
from chunkfit.scheduler.capacity import capacity
from chunkfit.scheduler.policies.registry import FAMILIES
from chunkfit.scheduler.run_report import load
from chunkfit.scheduler.simulation.cell import Setting, cell, run_cell
from chunkfit.scheduler.workloads.registry import KINDS
from tests.support.answer import Answer
from tests.support.studies import COSTS, TABLE

SMALL = ("--workload", "mixed:requests=40", "--jobs", 1)
EXACT = Setting("sloweave", "sloweave")


def test_simulate_answers_what_the_library_does(tmp_path):
    out = tmp_path / "study"
    asked = ("simulate", *SMALL, "--policy", "sloweave:prefills=1,aging=20ms,full", "--rate", "40,85", "--seeds", 2)
    answer = Answer(*asked, "--tpot", "10ms", "--out", out, "--json").json
    groups = {(group["policy"], "rate=85" in group["workload"]): group for group in answer["groups"]}
    assert len(answer["groups"]) == 4
    one = [
        run_cell(cell("full", "mixed:requests=40", seed, EXACT, rate="85", tpot="10ms"), COSTS).over_all
        for seed in range(2)
    ]
    assert groups["full", True]["figures"]["good_share"]["mean"] == (one[0].good_share + one[1].good_share) / 2
    assert ("sloweave:prefills=1,aging=20ms", False) in groups
    assert json.loads((out / "summary.json").read_text()) == answer
    with (out / "runs.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["group"] == "all"]
    assert len(rows) == 8
    assert float(rows[-1]["goodput_per_s"]) == one[1].goodput_per_s
    shown = Answer(*asked, "--tpot", "10ms").out
    assert "mixed     85      1.1s  10ms  full" in shown
    assert "cost sloweave; truth sloweave" in shown


def test_a_study_is_resumed_and_grows_but_is_not_written_over(tmp_path):
    asked = ("simulate", *SMALL, "--policy", "full", "--out", tmp_path)
    assert Answer(*asked, "--seeds", 1).code == 0
    first = (tmp_path / "runs.jsonl").read_text()
    refused = Answer(*asked, "--seeds", 1)
    assert (refused.code, "--resume to go on with it" in refused.err) == (2, True)
    assert Answer(*asked, "--seeds", 3, "--resume").code == 0
    grown = (tmp_path / "runs.jsonl").read_text()
    assert grown.startswith(first)
    assert len(grown.splitlines()) == 4
    assert Answer(*asked, "--seeds", 1, "--overwrite").code == 0
    assert (tmp_path / "runs.jsonl").read_text() == first


def test_one_run_is_shown_whole_and_kept_for_diagnosis(tmp_path):
    asked = ("simulate", "--policy", "full", "--workload", "chat:requests=40,rate=60", "--seeds", 1, "--jobs", 1)
    done = Answer(*asked, "--cost", TABLE, "--truth", "same:noise=3%", "--out", tmp_path, "--log", "--plot")
    assert done.code == 0, done.err
    assert "criterion per_token" in done.out
    assert "table-v1.json@" in done.out
    report = load(tmp_path / "run" / "run.json")
    assert report.costs.true.endswith(":surface=expected,noise=3%")
    assert report.device is not None
    assert {path.name for path in tmp_path.glob("*.png")} == {"latency.png", "timeline.png"}
    told = Answer("diagnose", tmp_path / "run", "--json")
    assert told.json["iterations"] == report.counts["iterations"]


def test_capacity_answers_what_the_library_does(tmp_path):
    asked = ("capacity", *SMALL, "--policy", "fixed-64,full", "--low", "20", "--high", "200/s", "--tolerance", "20%")
    answer = Answer(*asked, "--seeds", 2, "--good", "90%", "--out", tmp_path, "--json").json

    def share(rate, seed):
        return run_cell(cell("fixed-64", "mixed:requests=40", seed, EXACT, rate=repr(rate)), COSTS).over_all.good_share

    known = capacity(share, range(2), 0.9, 20, 200, 0.2)
    found = answer["capacities"][0]
    assert (found["rate_per_s"], found["next_rate_that_fails_per_s"]) == (known.rate, known.above)
    assert 20 < known.rate < 200
    assert len(found["tried"]) == len(known.tried)
    lines = (tmp_path / "runs.jsonl").read_text()
    again = Answer(*asked, "--seeds", 2, "--good", "90%", "--out", tmp_path, "--resume")
    assert f"{known.rate:.4g}" in again.out
    assert (tmp_path / "runs.jsonl").read_text() == lines


def test_capacity_says_where_the_range_ends():
    asked = ("capacity", *SMALL, "--policy", "full", "--seeds", 1, "--tpot", "10s", "--good", "50%")
    assert "over the highest" in Answer(*asked, "--low", 1, "--high", 2).out
    none = Answer("capacity", *SMALL, "--policy", "full", "--seeds", 1, "--tpot", "100us", "--low", 1, "--high", 2)
    assert "under the lowest" in none.out


def test_sensitivity_shows_what_a_biased_cost_does(tmp_path):
    asked = ("sensitivity", "bias", *SMALL, "--seeds", 2, "--values", "0.9x,1x", "--out", tmp_path, "--plot")
    answer = Answer(*asked, "--json").json
    low, exact = ({name: each["mean"] for name, each in row["figures"].items()} for row in answer["rows"])
    assert low["good_share"] < 0.7 < exact["good_share"] == 1.0
    assert answer["rows"][0]["truth"] == "sloweave"
    assert (tmp_path / "sensitivity.png").exists()
    shown = Answer(
        "sensitivity", "margin", *SMALL, "--seeds", 1, "--values", "0,0.1", "--cost", "sloweave:factor=0.95x"
    )
    assert "0.1" in shown.out
    assert shown.code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["simulate", "--policy", "slowave"], 2, "policy 'slowave' is unknown; expected one of full"),
        (["simulate", "--policy", "full,,fixed"], 2, "expected different texts joined by commas"),
        (["simulate", "--policy", "full,full"], 2, "expected different texts joined by commas"),
        (["simulate", "--workload", "mixd"], 2, "workload 'mixd' is unknown"),
        (["simulate", "--tpot", "25"], 2, "a number with its unit"),
        (["simulate", "--criterion", "nice"], 2, "criterion 'nice' is unknown"),
        (["simulate", "--cost", "no.json"], 2, "--cost 'no.json': neither a formula nor a file"),
        (["simulate", "--truth", "same:noise=3"], 2, "noise '3': expected a share from 0% to 100%"),
        (["simulate", "--plot"], 2, "--plot without --out"),
        (["simulate", "--log"], 2, "--log without --out"),
        (["simulate", "--resume", "--overwrite", "--out", "x"], 2, "the study in --out is kept or replaced"),
        (["simulate", "--ray", "local", "--jobs", 2], 2, "both say where runs are played"),
        (["simulate", "--cost", TABLE, "--workload", "long", "--kv-tokens", 100, "--jobs", 1], 0, ""),
        (["simulate", "--workload", "requests:file=no.csv"], 2, "no.csv: cannot be read"),
        (["capacity", "--good", "2"], 2, "expected a share from 0% to 100%"),
        (["capacity", "--low", "fast"], 2, "--low 'fast': expected requests a second"),
        (["capacity", "--low", "9", "--high", "3"], 2, "in ascending order"),
        (["sensitivity", "beta"], 2, "parameter 'beta' is unknown"),
        (["sensitivity", "margin", "--policy", "full"], 2, "no margin to vary"),
        (["diagnose", "no.csv"], 2, "an iteration log without --requests"),
    ],
)
def test_what_cannot_be_answered(arguments, code, message):
    done = Answer(*arguments)
    assert done.code == code, done.err
    assert message in done.err


def test_the_help_names_every_policy_and_workload():
    for option, known in ((studying.Policies, FAMILIES), (studying.Workloads, KINDS)):
        said = option.__metadata__[0].help
        assert all(re.search(rf"[ :]{name}[-,.:;]", said) for name in known), said


def test_texts_are_split_at_commas_that_begin_one():
    assert split_list("full,sloweave:prefills=1,aging=20ms,fixed-64:prefills=2,full:prefills=2", "--policy") == [
        "full",
        "sloweave:prefills=1,aging=20ms",
        "fixed-64:prefills=2",
        "full:prefills=2",
    ]
    assert variants({"rate": "4,8", "ttft": None, "tpot": "1ms,2ms"}) == [
        {"rate": "4", "tpot": "1ms"},
        {"rate": "4", "tpot": "2ms"},
        {"rate": "8", "tpot": "1ms"},
        {"rate": "8", "tpot": "2ms"},
    ]
    with pytest.raises(UsageError, match="joined by commas"):
        split_list("", "--policy")


def test_interrupted_by_ctrl_c_and_resumed(tmp_path):
    """The terminal sends it to the processes of the pool too: nobody but the command says a word."""
    arguments = ("simulate", "--workload", "mixed:requests=2000,rate=60", "--policy", "full,fixed-32", "--jobs", "2")
    command = [sys.executable, "-c", "from chunkfit.cli.main import main; main()", *arguments, "--out", str(tmp_path)]
    process = subprocess.Popen(
        [*command, "--seeds", "400"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    journal, end = tmp_path / "runs.jsonl", time.monotonic() + 100
    while not journal.exists() or len(journal.read_text().splitlines()) < 5:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "go on with the same command and --resume" in said
    assert "Traceback" not in said
    kept = len(journal.read_text().splitlines()) - 1
    assert kept < 800
    done = Answer(*arguments, "--out", tmp_path, "--seeds", 2, "--resume")
    assert done.code == 0, done.err
    assert len(journal.read_text().splitlines()) - 1 <= kept + 4
