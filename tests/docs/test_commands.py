"""Every command and every piece of Python in README and docs, run as it stands there.

Each page has a folder with the files that it takes as given; its commands run in order. Output that a page shows is
compared where it is the same on every machine.
"""

import json
import re
import shutil

import pytest
from support.pages import PAGES, blocks, commands, name

from chunkfit.cli.main import COMMANDS

# Output that depends on the machine or on the table at hand: only that the command ends well is checked.
OF_THE_MACHINE = ("chunkfit-run/table.json",)
# Commands of over ten seconds, and what takes their results, run with the slow tests.
SLOW = (
    "chunkfit run",
    "chunkfit capacity",
    "chunkfit sensitivity",
    "chunkfit simulate",
    "chunkfit diagnose",
    "chunkfit live",
)
NEEDS_VLLM = "--engine vllm"


@pytest.fixture(scope="session")
def given(made, tmp_path_factory):
    """The files that pages name: a table and its profile, under the names that the pages use."""
    folder = tmp_path_factory.mktemp("pages")
    for file in ("table.json", "profile.parquet"):
        shutil.copy(made / file, folder / file)
    (folder / "chunkfit-run").mkdir()
    shutil.copy(made / "table.json", folder / "chunkfit-run" / "table.json")
    (folder / "demo").mkdir()
    for file in ("table.json", "profile.parquet"):
        shutil.copy(made / file, folder / "demo" / file)
    write_steps(folder / "steps.csv")
    write_recorded(folder / "iterations.jsonl")
    return folder


def write_steps(path):
    """A log with a row per iteration: 600 steps, decodes and prompt tokens after prefixes."""
    rows = ["decodes,kv_tokens,prompt_tokens,cached_tokens,step_ms"]
    for i in range(600):
        n, c = 1 + i % 32, (i * 37) % 512
        rows.append(
            f"{n},{n * (100 + i % 900)},{c},{(i * 11) % 256 if c else 0},{5 + 0.05 * n + 0.01 * c + 0.001 * (i % 7)}"
        )
    path.write_text("\n".join(rows) + "\n")


def write_recorded(path):
    """A file of the recorder inside vLLM: 300 iterations of 4 decodes and a chunk."""
    lines = [{"chunkfit_record": 1, "fingerprint": {"engine": "vllm"}, "domain": {}}]
    for i in range(300):
        chunk = [[16 + i % 64, 0]] if i % 3 else []
        state = {"decode_contexts": [100 + i, 200, 300, 31], "chunks": chunk, "time_s": 0.01 * i}
        lines.append(state | {"latency_ms": 6.0 + 0.01 * (i % 7)})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def is_slow(line):
    return " ".join(line.words).startswith(SLOW)


def run_page(page, folder, command, slow):
    for line in commands(page):
        words, text = line.words, " ".join(line.words)
        assert words[0] == "chunkfit", f"{line}: a block marked `console` holds commands of ours alone"
        if is_slow(line) != slow:
            continue
        done = command(*words[1:], cwd=folder, timeout=900)
        if NEEDS_VLLM in text:
            assert done.code == 3, f"{line}: {done.err}"
            assert "vllm" in done.err.lower()
            continue
        assert done.code == 0, f"{line}: {done.err}"
        if line.shown and not any(part in text for part in OF_THE_MACHINE):
            assert [shown.rstrip() for shown in line.shown.splitlines()] == [
                printed.rstrip() for printed in done.out.splitlines()[: len(line.shown.splitlines())]
            ], line


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_run(page, given, tmp_path, command):
    shutil.copytree(given, tmp_path, dirs_exist_ok=True)
    run_page(page, tmp_path, command, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if any(is_slow(line) for line in commands(page))], ids=name)
def test_long_commands_run(page, given, tmp_path, command):
    shutil.copytree(given, tmp_path, dirs_exist_ok=True)
    run_page(page, tmp_path, command, slow=True)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_runs(page, given, tmp_path, monkeypatch):
    shutil.copytree(given, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, name(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_command_hides_in_another_block(page):
    """A command of ours stands in a block marked `console`, where it is run."""
    for language, text in blocks(page):
        if language != "console" and name(page) != "docs/cli.md":
            assert not re.search(r"^\$? ?chunkfit [a-z]", text, re.MULTILINE), text


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_named_in_prose_exist(page):
    named = set(re.findall(r"`chunkfit ([a-z]+)", page.read_text()))
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_vllm_is_given_is_understood(page):
    """`vllm serve` needs a GPU's worth of model: the scheduler's name and its options are checked without it."""
    from chunkfit.integrations.vllm import options

    for language, text in blocks(page):
        for given in re.findall(r"--additional-config\s+'(\{.*?\})'\s*$", text, re.MULTILINE):
            stated = json.loads(given)["chunkfit"]
            assert set(stated) <= set(options.Options.model_fields), (language, stated)
