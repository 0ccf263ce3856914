"""Costs by text: what is read, what is done to it, what it is called; and how long a request alone takes."""

import numpy as np
import pytest

import chunkfit
from chunkfit.files.errors import LogFormatError, OutOfDomainError, TableFormatError, UsageError
from chunkfit.scheduler.cost import CURVED, SLOWEAVE, bound_ticks, from_table, residual_factors
from chunkfit.scheduler.cost.look_up import alone_ms
from chunkfit.scheduler.cost.named_costs import policy_cost, true_cost
from tests.support.serving import workload
from tests.support.studies import TABLE

STATE = (4, 100, 100, 64, 0, 1)


def ticks(cost):
    return bound_ticks(cost, *STATE)


def test_a_formula_and_its_bias():
    assert ticks(policy_cost("sloweave").cost) == ticks(SLOWEAVE.cost())
    assert policy_cost("sloweave").name == "sloweave"
    biased = policy_cost("sloweave:factor=0.9x")
    assert biased.name == "sloweave:factor=0.9x"
    assert ticks(biased.cost) == pytest.approx(0.9 * ticks(SLOWEAVE.cost()), rel=1e-3)
    assert ticks(biased.alone) == ticks(SLOWEAVE.cost())
    assert biased.device is None


def test_of_a_table_policies_ask_the_bound_and_iterations_take_what_it_expects():
    table = chunkfit.load(TABLE)
    belief, truth = policy_cost(str(TABLE)), true_cost("same", str(TABLE))
    assert ticks(belief.cost) == ticks(from_table(table, "bound"))
    assert ticks(truth.cost) == ticks(from_table(table, "expected")) < ticks(belief.cost)
    assert truth.device == table.fingerprint.title()
    assert ticks(true_cost("same:surface=bound", str(TABLE)).cost) == ticks(belief.cost)


def test_a_name_has_the_content_of_the_table_and_not_its_path(tmp_path):
    copy = tmp_path / TABLE.name
    copy.write_bytes(TABLE.read_bytes())
    assert policy_cost(str(copy)).name == policy_cost(str(TABLE)).name
    assert policy_cost(str(copy)).name.startswith("table-v1.json@")
    copy.write_bytes(TABLE.read_bytes() + b"\n")
    assert policy_cost(str(copy)).name != policy_cost(str(TABLE)).name


def test_same_is_the_source_without_what_is_done_to_it():
    truth = true_cost("same:factor=1.1x,noise=3%", "curved:factor=0.9x")
    assert truth.name == "curved:factor=1.1x,noise=3%"
    assert truth.noise == 0.03
    assert ticks(truth.cost) == pytest.approx(1.1 * ticks(CURVED.cost()), rel=1e-3)
    assert true_cost("same", "curved:factor=0.9x").name == "curved"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sloweave:noise=3%", "give them in --truth"),
        ("sloweave:surface=bound", "one surface"),
        ("sloweave:factor=0.9", "such as 0.9x"),
        ("sloweave:factor=0x", "such as 0.9x"),
        ("sloweave:size=3", "'size' is unknown; expected surface, factor, noise, residuals"),
        (f"{TABLE}:surface=lower", "surface 'lower': expected one of bound, expected"),
        ("slowave", "neither a formula nor a file; expected sloweave, curved or the path of a table"),
        ("same", "neither a formula nor a file"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        policy_cost(text)


def test_a_file_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(TableFormatError):
        policy_cost(str(tmp_path / "x.json"))


def test_recorded_residuals_are_drawn(tmp_path):
    file = tmp_path / "iterations.csv"
    file.write_text("engine_ms,expected_ms\n11,10\n9,10\n5,nan\n6,\n")
    truth = true_cost(f"same:residuals={file}", "sloweave")
    assert truth.ratios == (1.1, 0.9)
    assert truth.name.startswith("sloweave:residuals=iterations.csv@")
    assert (truth.factors(3) == residual_factors(3, [1.1, 0.9])).all()
    for text, message in (
        (f"same:residuals={file},noise=3%", "both set the iterations.* factors"),
        (f"same:residuals={tmp_path}/no.csv", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=message):
            true_cost(text, "sloweave")
    with pytest.raises(UsageError, match="give them in --truth"):
        policy_cost(f"sloweave:residuals={file}")
    file.write_text("engine_ms,expected_ms\n5,nan\n")
    with pytest.raises(LogFormatError, match="no row says expected_ms"):
        true_cost(f"same:residuals={file}", "sloweave")


def test_alone_a_prompt_takes_the_sum_of_its_chunks():
    rows = workload(3, prompt_tokens=[1000, 1000, 200], cached_tokens=[0, 400, 0])
    cost = CURVED.cost()
    whole = alone_ms(cost, rows, 1 << 40)
    assert whole[0] * (1 << 14) == bound_ticks(cost, 0, 0, 0, 1000, 0, 1)
    assert whole[1] * (1 << 14) == bound_ticks(cost, 0, 0, 0, 600, 400, 1)
    chunked = alone_ms(cost, rows, 512)
    parts = [(512, 0), (488, 512)]
    assert chunked[0] * (1 << 14) == sum(bound_ticks(cost, 0, 0, 0, c, u, 1) for c, u in parts)
    assert chunked[2] == whole[2] < whole[0]


def test_a_prompt_outside_of_the_table_has_no_time_alone():
    rows = workload(2, prompt_tokens=np.array([100, 1_000_000]))
    with pytest.raises(OutOfDomainError, match=r"row 1 .*1,000,000 tokens.*max_prompt=N"):
        alone_ms(true_cost("same", str(TABLE)).cost, rows, 2048)
