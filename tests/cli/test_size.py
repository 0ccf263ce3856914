"""`chunkfit size`, in this process and on a table of the known truth: what it needs to start is tested elsewhere."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import chunkfit
from chunkfit import CostTable
from chunkfit.cli.main import app
from chunkfit.planning.chunk_tax import chunk_tax
from chunkfit.planning.sizing import Prompt, static_budget
from chunkfit.tables.document import checksum

TABLE = Path(chunkfit.__file__).parent / "tests" / "tables" / "golden" / "table-v1.json"
STATE = ("--decodes", 40, "--context", 1000, "--tpot", "25ms")


class Answer:
    def __init__(self, *arguments):
        done = CliRunner().invoke(app, ["size", *map(str, arguments)], env={"COLUMNS": "200"})
        self.code, self.out, self.err = done.exit_code, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)


def test_size_answers_what_the_library_does():
    table = CostTable.load(TABLE)
    asked = Answer(TABLE, *STATE, "--prompt", 2000, "--prefix-hit", 0.5, "--json").json
    prompt = Prompt(2000, 1000)
    budget = static_budget(table, 40, 1000, 25 * 0.95, [prompt])
    assert asked["budget_tokens"] == budget.tokens > 40
    assert asked["worst_ms"] == budget.worst_ms <= 25 * 0.95
    tax = chunk_tax(table, prompt, budget.tokens - 40, 40, 1000)
    assert asked["prompts"][0]["tax_share"] == tax.tax_share
    assert asked["prompts"][0]["suffix_tokens"] == 1000
    assert 100 < asked["ridge"]["tokens"] < 250
    assert asked["synthetic"] is True
    tight = Answer(TABLE, *STATE, "--headroom", 0.2, "--json").json
    assert tight["budget_tokens"] == static_budget(table, 40, 1000, 20.0).tokens


def test_a_table_of_our_engine_gives_no_number_for_another(tmp_path):
    done = Answer(TABLE, *STATE)
    assert done.code == 0
    assert "batched tokens of formula, and of no other" in done.out
    assert "max_num_batched_tokens" not in done.out
    assert Answer(TABLE, *STATE, "--json").json["setting"] is None
    content = json.loads((TABLE).read_text())
    for engine, name in (("vllm", "max_num_batched_tokens"), ("sglang", "--chunked-prefill-size")):
        content["fingerprint"]["engine"] = engine
        content["content_sha256"] = checksum(content)
        path = tmp_path / f"{engine}.json"
        path.write_text(json.dumps(content))
        asked = Answer(path, *STATE, "--json").json
        assert asked["setting"]["value"] == asked["budget_tokens"]
        assert name in asked["setting"]["name"]
        assert f"= {asked['budget_tokens']}" in Answer(path, *STATE).out


def test_it_says_what_should_trigger_another_look_and_what_was_left_out():
    out = Answer(TABLE, *STATE).out
    assert "tensor_parallel" in out
    assert "prefix hit rate" in out
    assert "give --prompt" in out
    assert "unequal contexts and several chunks: not measured, so the bound promises nothing of such batches" in out
    out = Answer(TABLE, "--decodes", 40, "--tpot", "3s", "--prompt", 4000).out
    assert "limited by what was measured" in out
    assert "unknown: whole" in out


def test_a_target_that_leaves_no_room():
    done = Answer(TABLE, "--decodes", 40, "--tpot", "8ms", "--prompt", 2000)
    assert done.code == 0
    assert "static token budget: 0 tokens" in done.out
    assert "no prompt token fits" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--decodes", 4, "--tpot", "25"], 2, "a number with its unit"),
        (["--decodes", 0, "--tpot", "25ms"], 2, "at least 1 decode"),
        (["--decodes", 4000, "--tpot", "25ms"], 1, "decodes n = 4,000 is above the measured limit"),
        (["--decodes", 4, "--tpot", "25ms", "--prompt", 30000], 1, "prefix tokens u = 29,999"),
        (["--decodes", 4, "--tpot", "25ms", "--prefix-hit", 0.5], 2, "without --prompt"),
        (["--decodes", 4, "--tpot", "25ms", "--prompt", 99, "--prefix-hit", 1.5], 2, "share from 0% to 100%"),
        (["--decodes", 4, "--tpot", "25ms", "--headroom", 1], 2, "--headroom"),
        (["--tpot", "25ms"], 2, "decodes"),
    ],
)
def test_size_refuses_what_it_cannot_answer(arguments, code, message):
    done = Answer(TABLE, *arguments)
    assert done.code == code
    assert message in done.err
    assert not done.out
