"""`chunkfit live` as a user runs it, on the synthetic device's clock: results, refusals, Ctrl-C, what is drawn."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from chunkfit.cli import live_display
from chunkfit.cli.live import live, policies_of
from chunkfit.cli.live_display import Finished, Running
from chunkfit.files.errors import LogFormatError, StorageError, TableFormatError, UsageError

QUICK = ("--policy", "sloweave,fixed-128", "--rate", 6, "--seconds", 2, "--rounds", 2, "--max-running", 32)


@pytest.fixture(scope="module")
def ran(made, command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    return folder, command("live", made / "table.json", *QUICK, "--online", "--check-simulator", cwd=folder)


def test_one_rate_in_rounds(ran):
    folder, done = ran
    assert done.code == 0, done.err
    study = json.loads((folder / "chunkfit-live" / "live.json").read_text())
    assert [run["report"]["policy"] for run in study["runs"]] == ["sloweave", "fixed-128", "fixed-128", "sloweave"]
    assert {run["phase"] for run in study["runs"]} == {"rounds"}
    assert study["synthetic"]
    assert study["calibrated"]["bound_factor"] > 0
    assert set(study["simulator"]) == {"sloweave", "fixed-128"}
    for shown in ("SYNTHETIC", "rounds at 6 requests/s", "coverage [95%]", "the simulator beside", "without the calib"):
        assert shown in done.out
    assert "sloweave at 6/s: " in done.err


def test_every_iteration_is_logged(ran):
    folder, _ = ran
    study = json.loads((folder / "chunkfit-live" / "live.json").read_text())
    with (folder / "chunkfit-live" / "iterations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(run["report"]["counts"]["iterations"] for run in study["runs"])
    assert {row["run"] for row in rows} == {"0", "1", "2", "3"}
    assert all(float(row["engine_ms"]) > 0 and float(row["expected_ms"]) > 0 for row in rows)


def test_a_soak(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    live(made / "table.json", policy="sloweave", soak="5s", as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["lost"] == report["short"] == report["pages_lost"] == 0
    assert report["requests"] >= 48
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_served(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def refused(error, match, table=made / "table.json", **options):
        with pytest.raises(error, match=match):
            live(table, **{"rate": 5.0, "seconds": 1.0} | options)

    whole = (made / "table.json").read_text()
    (tmp_path / "cut.json").write_text(whole[: len(whole) // 2])
    refused(TableFormatError, "byte", tmp_path / "cut.json")
    refused(UsageError, r"4 KV pages of 16 tokens.*give more --kv-tokens", kv_tokens=64)
    (tmp_path / "trace.csv").write_text("arrival_ms,prompt_tokens,output_tokens\n5,10,3\n1,10,3\n")
    refused(LogFormatError, r"line 3.*rows in order of arrival", workload="requests:file=trace.csv,arrivals=poisson")
    refused(UsageError, "--tpot '3': expected", tpot="3")
    refused(UsageError, "criterion 'best' is unknown", criterion="best")
    refused(UsageError, r"--rounds 0.*one round at least", rounds=0)
    (tmp_path / "file").write_text("in the way")
    refused(StorageError, "cannot be made", out=tmp_path / "file" / "live")


def test_policies_in_a_list():
    assert [one.name for one in policies_of("sloweave:prefills=1,aging=20ms,fixed_64, full")] == [
        "sloweave:prefills=1,aging=20ms",
        "fixed-64",
        "full",
    ]
    with pytest.raises(UsageError, match="fixed-64 is there twice"):
        policies_of("full,fixed-64,fixed_64")


def test_ctrl_c_gives_the_report_so_far(made, tmp_path):
    command = [sys.executable, "-c", "from chunkfit.cli.main import main; main()", "live", str(made / "table.json")]
    command += ["--policy", "sloweave,fixed-128", "--rate", "8", "--seconds", "600", "--rounds", "1"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for line in process.stderr:
        if "serving" in line:
            break
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "stopped: this is what there is so far" in out
    assert "Traceback" not in said
    study = json.loads((tmp_path / "chunkfit-live" / "live.json").read_text())
    assert study["stopped"]


class Told:
    """A pipe with everything in it."""

    def __init__(self, *messages):
        self.messages = list(messages)

    def recv(self):
        if not self.messages:
            raise EOFError
        return self.messages.pop(0)


RUNNING = Running("sloweave", 12.5, 3.2, 40, 7, 3, 321, 21.4, float("nan"), 2)


@pytest.mark.parametrize("end", [(None,), ()])
def test_what_is_drawn(monkeypatch, end):
    console = Console(width=120, record=True, file=io.StringIO())
    monkeypatch.setattr(live_display, "progress_console", lambda: console)
    monkeypatch.setattr(live_display.signal, "signal", lambda *_: None)
    live_display.draw(Told(Finished("full", 12.5, 0.5, 6.1, 4), RUNNING, *end))
    text = console.export_text()
    for part in ("1 runs so far", "full", "50.0%", "sloweave", "321", "21.4"):
        assert part in text


def test_nobody_draws_where_there_is_no_terminal(capsys):
    with live_display.Display() as display:
        display._send(RUNNING)
    assert capsys.readouterr().err == ""


def test_a_dead_drawer_does_not_stop_the_run():
    class Broken:
        def send(self, what):
            raise BrokenPipeError

    display = live_display.Display()
    display._pipe = Broken()
    display._send(RUNNING)
