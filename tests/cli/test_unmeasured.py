"""What commands say of batches that were not measured: by order, unknown, and axes of one value."""

from dataclasses import replace

import numpy as np
import pytest
from support.random_tables import table_of
from support.served_table import DOMAIN, served_table

from chunkfit.tables import Fingerprint, Scene
from chunkfit.tables.support import Support


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Decodes of 33 to 96 beside chunks from 257, all of one context; nothing else was measured."""
    domain = DOMAIN.model_copy(update={"max_context_tokens": 8000})
    whole = served_table(Fingerprint(engine="vllm"), domain).arrays
    k = domain.max_context_tokens
    edges = {
        "decodes": (32, 96),
        "context_tokens": (k - 1, k),
        "chunk_tokens": (256, 8192),
        "prefix_tokens": (0, domain.max_prefix_tokens),
    }
    mixed = np.zeros((2, 2, 2, 2), bool)
    mixed[1, 1, 1, 0] = True
    measured = {
        Scene.DECODE: np.array([[0, 0], [0, 1]], bool),
        Scene.PREFILL: np.zeros((2, 2), bool),
        Scene.MIXED: mixed,
    }
    made = table_of(replace(whole, support=Support(edges, measured)), fingerprint=Fingerprint(engine="vllm"))
    path = tmp_path_factory.mktemp("t") / "table.json"
    made.save(path)
    return path, made


def test_chunk_says_that_an_answer_is_by_order_and_that_one_context_was_measured(table, command):
    path, made = table
    state = ("--decodes", 8, "--context", 100, "--budget", "2s")
    answer = command("chunk", path, *state, "--json").json
    assert answer["support"] == "by order"
    out = command("chunk", path, *state).out
    assert "no batch like it was measured: the bound is that of measured batches with more work" in " ".join(
        out.split()
    )
    assert f"context tokens: only {made.domain.max_context_tokens:,} was measured" in " ".join(out.split())


def test_chunk_never_offers_a_chunk_of_which_nothing_is_known(table, command):
    path, _ = table
    state = ("--decodes", 8, "--context", 100, "--prefix", 5, "--budget", "2s")
    answer = command("chunk", path, *state, "--json").json
    assert (answer["chunk_tokens"], answer["limited_by"]) == (0, "support")
    assert "limited by what was measured, not by the budget" in command("chunk", path, *state).out
    alone = command("chunk", path, "--decodes", 0, "--prefix", 5, "--budget", "2s")
    assert alone.code == 1
    assert "no batch with as much work in every coordinate was measured" in alone.err


def test_show_marks_the_cells_that_were_not_measured(table, command):
    path, made = table
    shown = command("show", path, "--context", made.domain.max_context_tokens)
    assert "~ not measured: the bound of measured batches with more work" in shown.out
    values = command("show", path, "--context", made.domain.max_context_tokens, "--json").json["heat_map"]
    kinds = np.array(values["support"], dtype=object)
    decodes, chunks = np.array(values["decodes"]), np.array(values["chunk_tokens"])
    assert set(kinds[np.ix_(decodes == 1, (chunks > 0) & (chunks < 256))].ravel()) == {"by order"}
    assert set(kinds[np.ix_(decodes == 96, chunks == 8000)].ravel()) <= {"measured"}
    cells = np.array(values["bound_ms"], dtype=object)
    assert (cells[kinds == "by order"] != None).all()  # noqa: E711
    assert f"~{values['bound_ms'][1][1]:.4g}" in shown.out


def test_size_says_what_its_slowest_iteration_rests_on(table, command):
    path, _ = table
    asked = command("size", path, "--decodes", 96, "--context", 100, "--tpot", "2s", "--json").json
    assert asked["support"] in ("measured", "by order")
    assert "rests on" in command("size", path, "--decodes", 96, "--context", 100, "--tpot", "2s").out
