"""The commands as a user runs them: results, --json, exit codes."""

import json
import re
import shutil

import pytest
from support.chunk_of import chunk_of

from chunkfit import Batch, CostTable
from chunkfit.cli.main import COMMANDS
from chunkfit.cli.table_lines import usual_context
from chunkfit.tables.document import checksum
from chunkfit.tables.grid import to_ms


def edited(made, tmp_path, change, reseal=True):
    content = json.loads((made / "table.json").read_text())
    change(content)
    if reseal:
        content["content_sha256"] = checksum(content)
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name, command):
    done = command(name, "--help")
    assert done.code == 0
    assert re.search(rf"Example: chunkfit {name}", done.out)
    assert "--json" in done.out


def test_chunk_answers_with_its_margin(made, command):
    table = CostTable.load(made / "table.json")
    state = ("--decodes", 40, "--context", 1000, "--equal-contexts")
    done = command("chunk", made / "table.json", *state, "--budget", "25ms", "--json")
    answer = done.json
    assert answer["chunk_tokens"] == chunk_of(table)
    assert answer["bound_ms"] == table.bound_ms(Batch.of(40, 1000, answer["chunk_tokens"]))
    assert answer["margin_ms"] == answer["bound_ms"] - answer["expected_ms"]
    assert answer["synthetic"] is True
    assert (answer["support"], answer["limited_by"]) == ("measured", "budget")
    text = command("chunk", made / "table.json", *state, "--budget", "0.025s").out
    assert f"largest chunk: {answer['chunk_tokens']} tokens" in text
    assert "SYNTHETIC" in text


def test_chunk_and_size_agree_at_one_state(made, command):
    """Contexts are unequal unless said, in both; `chunk` also says what equal ones and several prompts would take."""
    table = CostTable.load(made / "table.json")
    state = ("--decodes", 40, "--context", 1000)
    sized = command("size", made / "table.json", *state, "--tpot", "25ms", "--headroom", 0, "--json").json
    answer = command("chunk", made / "table.json", *state, "--budget", "25ms", "--json").json
    assert answer["chunk_tokens"] == sized["chunk_tokens"]
    assert sized["support"] == answer["support"] == "measured"
    assert table.document.factors.unequal_contexts > 1
    assert answer["equal_contexts_tokens"] == chunk_of(table) > answer["chunk_tokens"]
    longest = answer["longest_context_tokens"]
    assert answer["several_chunks_tokens"] == chunk_of(table, longest_context=longest, chunks=2)


def test_chunk_takes_the_usual_context_of_the_rows_without_one(made, command):
    table = CostTable.load(made / "table.json")
    median = table.document.observed["context_tokens"].median
    answer = command("chunk", made / "table.json", "--decodes", 8, "--budget", "25ms", "--json").json
    assert answer["context_tokens"] == usual_context(table) == median
    done = command("chunk", made / "table.json", "--decodes", 8, "--budget", "25ms")
    assert f"k {median} (median of the fit rows)" in done.out


def test_chunk_takes_the_longest_context(made, command):
    table = CostTable.load(made / "table.json")
    state = ("--decodes", 40, "--context", 1000, "--budget", "25ms", "--json")
    answer = command("chunk", made / "table.json", *state, "--longest-context", 30_000).json
    assert answer["chunk_tokens"] == chunk_of(table, longest_context=30_000)
    equal = command("chunk", made / "table.json", *state, "--equal-contexts").json
    assert answer["chunk_tokens"] < equal["chunk_tokens"]
    both = command("chunk", made / "table.json", *state, "--equal-contexts", "--longest-context", 30_000)
    assert (both.code, "expected one of them" in both.err) == (2, True)
    batch = Batch.with_chunks([30_000, *[256] * 25, *[257] * 14], [(answer["chunk_tokens"], 0)])
    assert (batch.context_tokens, answer["bound_ms"]) == (1000, table.bound_ms(batch))
    for longest in (999, 39_962):
        done = command("chunk", made / "table.json", *state, "--longest-context", longest)
        assert (done.code, "expected 1000 to 39961" in done.err) == (2, True)
    shown = command("show", made / "table.json").out
    assert "unequal contexts" in shown
    assert "on the bound of such batches alone" in shown


def test_chunk_says_when_the_decodes_alone_are_late(made, command):
    done = command("chunk", made / "table.json", "--decodes", 40, "--context", 1000, "--budget", "1ms")
    assert done.code == 0
    assert "largest chunk: 0" in done.out
    assert "decodes alone exceed the budget" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--decodes", 4, "--context", 9, "--budget", "25"], 2, "a number with its unit"),
        (["--decodes", 4, "--context", 9, "--budget", "fast"], 2, "a number with its unit"),
        (["--decodes", 4000, "--context", 9, "--budget", "25ms"], 1, "decodes n = 4,000 is above the measured limit"),
        (["--decodes", 4, "--context", 0, "--budget", "25ms"], 2, "context of at least 1"),
        (["--decodes", "four", "--budget", "25ms"], 2, "--decodes"),
        (["--budget", "25ms"], 2, "decodes"),
    ],
)
def test_chunk_refuses_what_it_cannot_answer(made, command, arguments, code, message):
    done = command("chunk", made / "table.json", *arguments)
    assert done.code == code
    assert message in done.err
    assert not done.out


def test_validate_with_and_without_the_profile(made, command):
    assert command("validate", made / "table.json").code == 0
    done = command("validate", made / "table.json", "--profile", made / "profile.parquet", "--json")
    assert done.code == 0
    assert done.json["valid"] is True


def test_validate_names_the_cell_of_a_lowered_bound_and_the_checksum(made, tmp_path, command):
    table = CostTable.load(made / "table.json")
    shape = table.arrays.axes.shape("mixed")
    last = shape[-1] - 1
    low = float(to_ms(table.arrays.bound["mixed"].base[0, 0, 0, last - 1])) - 1

    def lower(content):
        base = content["scenes"]["mixed"]["base"]
        base["expected_ms"][last] = base["bound_ms"][last] = low

    path = edited(made, tmp_path, lower, reseal=False)
    done = command("validate", path, "--profile", made / "profile.parquet", "--json")
    assert done.code == 1
    findings = done.json["findings"]
    c = table.domain.max_chunk_tokens
    cell = f"$.scenes.mixed.base.bound_ms[{last}] (decodes 1, context_tokens 16, prefix_tokens 0, chunk_tokens {c})"
    assert findings[0]["where"] == cell or findings[1]["where"] == cell
    assert findings[0]["kind"] == "structure"
    assert "less work" in findings[0]["message"]
    assert "checksum" in [f["kind"] for f in findings]


def test_validate_recomputes_an_edited_coverage(made, tmp_path, command):
    path = edited(made, tmp_path, lambda c: c["test"]["coverage"].update(covered=377))
    assert command("validate", path).code == 0, "the file alone cannot know"
    done = command("validate", path, "--profile", made / "profile.parquet")
    assert done.code == 1
    assert "$.test.coverage.covered: stored 377, recomputed from the profile" in done.out
    path = edited(made, tmp_path, lambda c: c["certificate"].update(coverage=0.999))
    done = command("validate", path, "--profile", made / "profile.parquet")
    assert done.code == 1
    assert "$.certificate" in done.out


def test_validate_of_a_cut_file(made, tmp_path, command):
    text = (made / "table.json").read_text()
    path = tmp_path / "cut.json"
    path.write_text(text[: len(text) // 2])
    done = command("validate", path, "--profile", made / "profile.parquet")
    assert done.code == 1
    assert re.search(r"byte offset [\d,]+, line \d+.*last complete path: \$\.", done.out)


def test_validate_against_another_profile(made, tmp_path, command):
    from chunkfit.profiler.synthetic_profile import synthetic_profile

    synthetic_profile(9, fit_points=50, calibrate_points=50, test_points=50).save(tmp_path / "other.parquet")
    done = command("validate", made / "table.json", "--profile", tmp_path / "other.parquet")
    assert done.code == 1
    assert "not the profile the table was fitted on" in done.out


def test_fit_writes_the_table_and_its_evidence(made, tmp_path, command):
    out = tmp_path / "table.json"
    done = command("fit", made / "profile.parquet", "--out", out, "--fitter", "scene-experts", "--json")
    assert done.code == 0
    assert done.json["fitter"]["options"]["selection"]["why"] == "scene_experts was asked for"
    assert done.json["certificate"]["points"] == 400
    assert CostTable.load(out).document.scenes == CostTable.load(made / "table.json").document.scenes


def test_fit_refuses_too_few_points_and_says_how_many(tmp_path, command):
    from chunkfit.profiler.synthetic_profile import synthetic_profile

    synthetic_profile(0, fit_points=90, calibrate_points=63, test_points=40).save(tmp_path / "small.parquet")
    fitted = ("fit", tmp_path / "small.parquet", "--fitter", "linear", "--out", tmp_path / "t.json")
    done = command(*fitted)
    assert done.code == 1
    assert "refused: m = 63 calibration points, needs 299" in done.err
    assert not (tmp_path / "t.json").exists()
    done = command(*fitted, "--coverage", 0.95, "--json")
    assert done.code == 0
    assert done.json["certificate"]["coverage"] == 0.95


def test_fit_refuses_profiles_of_different_devices(made, tmp_path, command):
    from dataclasses import replace

    from chunkfit import Profile

    profile = Profile.load(made / "profile.parquet")
    fingerprint = profile.meta.fingerprint.model_copy(update={"device_name": "reference-v2"})
    replace(profile, meta=profile.meta.model_copy(update={"fingerprint": fingerprint})).save(tmp_path / "other.parquet")
    done = command("fit", made / "profile.parquet", tmp_path / "other.parquet", "--out", tmp_path / "t.json")
    assert done.code == 1
    assert "device_name: 'reference-v1' against 'reference-v2'" in done.err
    assert "other.parquet" in done.err
    assert not (tmp_path / "t.json").exists()


def test_show_draws_the_map_with_the_budget_line(made, command):
    done = command("show", made / "table.json", "--budget", "25ms")
    assert done.code == 0
    assert "cells left of the line fit" in done.out
    assert "certified coverage" in done.out
    line = next(line for line in done.out.splitlines() if re.match(r"\s+16 ", line))
    left, right = line.split("|")
    assert float(left.split()[-1]) <= 25 < float(right.split()[0])
    assert command("show", made / "table.json", "--json").json["heat_map"]["decodes"][0] == 0


def test_export(made, tmp_path, command):
    assert command("export", made / "table.json", tmp_path / "t.csv").code == 0
    assert (tmp_path / "t.csv").read_text().startswith("scene,decodes")
    assert command("export", made / "table.json", tmp_path / "t.json").code == 0
    assert (tmp_path / "t.json").read_bytes() == (made / "table.json").read_bytes()
    assert command("export", made / "table.json", tmp_path / "schema.json").code == 0
    assert "JSON Schema" not in (tmp_path / "schema.json").read_text()[:1]
    done = command("export", made / "table.json", tmp_path / "t.xlsx")
    assert (done.code, "ends in .csv or .json" in done.err) == (2, True)
    done = command("export", made / "table.json", tmp_path / "absent" / "t.csv")
    assert (done.code, "cannot be written" in done.err) == (3, True)


def test_doctor_tells_the_machine(command):
    found = command("doctor", "--json").json
    assert found["default_device"] in ("cpu", "cuda")
    assert found["cpu_threads"] >= 1
    assert found["attention"]["torch"] is None
    assert list(found["attention"]) == ["torch", "triton"]
    assert command("doctor").code == 0


def test_an_absent_table_and_profile(tmp_path, command):
    done = command("show", tmp_path / "absent.json")
    assert (done.code, "cannot be read" in done.err) == (1, True)
    assert command("fit", tmp_path / "absent.parquet").code in (1, 2)
    shutil.copy(__file__, tmp_path / "text.parquet")
    done = command("fit", tmp_path / "text.parquet")
    assert (done.code, "not a readable Parquet file" in done.err) == (1, True)


def test_no_gpu_is_said_plainly(tmp_path, command):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = command("profile", tmp_path / "p.parquet", "--device", "cuda", "--minutes", 0.1)
    assert done.code == 3
    assert "cuda" in done.err
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cpu", "attention 'paged': no backend of that name; expected one of torch, triton"),
        ("synthetic", "attention 'paged' on device 'synthetic', which has none"),
    ],
)
def test_the_attention_asked_for_reaches_the_session(tmp_path, command, device, message):
    asked = ("--device", device, "--attention", "paged", "--minutes", 0.1, "--points", 20)
    done = command("profile", tmp_path / "p.parquet", *asked)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not list(tmp_path.iterdir())


def test_an_unknown_device_and_model(tmp_path, command):
    done = command("profile", tmp_path / "p.parquet", "--device", "tpu")
    assert (done.code, "expected auto, cuda, cpu, synthetic" in done.err) == (2, True)
    done = command("profile", tmp_path / "p.parquet", "--device", "cpu", "--model", "gpt-9")
    assert (done.code, "gpt-9" in done.err) == (2, True)


def test_run_on_the_synthetic_device_leaves_everything(tmp_path, command):
    done = command("run", "--device", "synthetic", "--points", 320, "--out", tmp_path / "r", "--json")
    assert done.code == 0, done.err
    summary = done.json
    assert summary["valid"] is True
    assert summary == json.loads((tmp_path / "r" / "summary.json").read_text())
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == [
        "profile.parquet",
        "report.html",
        "summary.json",
        "table.csv",
        "table.json",
    ]
    assert summary["certificate"]["exceedances"] <= summary["certificate"]["allowed"]
    assert summary["test"]["coverage"]["low"] < summary["test"]["coverage"]["high"]
    assert {"mape_percent", "mean_bound_ratio"} <= summary["test"]["errors"]["all"].keys()
    assert summary["gap"]["mean_percent"] >= 0
    assert "cost of the whole plan" in done.err
    again = command("run", "--device", "synthetic", "--points", 320, "--out", tmp_path / "r")
    assert (again.code, "--overwrite" in again.err) == (2, True)
    (tmp_path / "r" / "report.html").unlink()
    bare = command("run", "--out", tmp_path / "r", "--resume", "--json", without="matplotlib")
    assert bare.json["certificate"] == summary["certificate"]
    assert "no report: matplotlib is not installed and `chunkfit report` needs it" in bare.err
    assert (bare.code, (tmp_path / "r" / "report.html").exists(), "report" in bare.json["files"]) == (0, False, False)


@pytest.mark.parametrize(
    ("option", "text"),
    [("--coverage", "1"), ("--coverage", "nan"), ("--coverage", "99"), ("--confidence", "0"), ("--confidence", "100%")],
)
def test_fit_refuses_a_share_that_promises_nothing(made, tmp_path, command, option, text):
    done = command("fit", made / "profile.parquet", "--out", tmp_path / "t.json", option, text)
    assert (done.code, done.out) == (2, "")
    assert f"{option} '{text}': expected a share above 0% and below 100%, such as 99% or 0.99" in done.err
    assert not (tmp_path / "t.json").exists()
