"""Decisions inside vLLM are the table's own, and what is done where it has no answer."""

from dataclasses import replace

import numpy as np
import pytest
from support.chunk_of import chunk_of
from support.random_tables import table_of
from support.served_table import DOMAIN, served_table

from chunkfit.files.errors import FingerprintMismatchError, RefutedTableError, TableFormatError, UsageError
from chunkfit.integrations.vllm.decision import OUTSIDE_PERIOD, Decider, load_table, warm_up
from chunkfit.integrations.vllm.options import Options, options_of, request_target_ms
from chunkfit.integrations.vllm.state import Decodes, PromptState, Room
from chunkfit.scheduler.serving_state import NEVER
from chunkfit.tables import Scene
from chunkfit.tables.fingerprint import Fingerprint
from chunkfit.tables.lookup import TICKS_PER_MS
from chunkfit.tables.support import Support
from chunkfit.tables.verdict import ConcernV1, Grade, VerdictV1

HERE = Fingerprint(device_kind="cpu", engine="vllm")
NOW = 1000 * TICKS_PER_MS
ROOM = Room(places=8, pages=10_000, page_tokens=16, max_batch_tokens=8192)


@pytest.fixture(scope="module")
def table():
    return served_table(HERE)


def decider_of(table, policy="sloweave"):
    return Decider(table, Options(tpot_ms=25, policy=policy), capacity=256)


def decodes_of(contexts, tpot_ms=25.0, waited_ms=0.0):
    """Each got its newest token `waited_ms` before now, which is 1 s."""
    decodes = Decodes()
    for context in contexts:
        decodes.add(context, round((1000 - waited_ms) * TICKS_PER_MS), NOW, 5, round(tpot_ms * TICKS_PER_MS), 0)
    return decodes


def prompt_of(name="p", target=5000, computed=0, begun=False, arrival_ms=0.0):
    return PromptState(name, target, computed, begun, round(arrival_ms * TICKS_PER_MS), NEVER, NEVER, 0, 0)


@pytest.mark.parametrize("waited_ms", [0.0, 3.7])
@pytest.mark.parametrize("prefix", [0, 4000, 60_000])
def test_the_chunk_is_the_tables_largest(table, waited_ms, prefix):
    decodes = decodes_of([2000] * 16, waited_ms=waited_ms)
    decision = decider_of(table).decide(NOW, decodes, [prompt_of(target=65_000, computed=prefix, begun=True)], ROOM)
    expected = chunk_of(table, 16, 2000, prefix, 25.0 - waited_ms, max_chunk=65_000 - prefix)
    assert decision.chosen == ((0, expected),)
    assert decision.bound_ms <= decision.budget_ms == pytest.approx(25.0 - waited_ms, abs=1e-3)
    assert not decision.outside


def test_without_decodes_the_chunk_is_the_largest_there_is(table):
    decision = decider_of(table, "sloweave:chunk_tokens=100000").decide(
        NOW, Decodes(), [prompt_of(target=60_000)], ROOM
    )
    assert decision.chunk_tokens == DOMAIN.max_chunk_tokens
    assert decision.budget_ms is None


def test_several_prompts_share_the_budget_in_order_of_arrival(table):
    prompts = [prompt_of("b", 300, arrival_ms=2.0), prompt_of("a", 50, arrival_ms=1.0)]
    decision = decider_of(table).decide(NOW, decodes_of([2000] * 16), prompts, ROOM)
    assert [index for index, _ in decision.chosen] == [1, 0]
    assert decision.chosen[0] == (1, 50)
    assert decision.bound_ms <= 25.0


def test_targets_of_single_requests_bind(table):
    decodes = decodes_of([2000] * 15)
    decodes.add(2000, NOW, 0, 5, 12 * TICKS_PER_MS, 0)
    assert decider_of(table).decide(NOW, decodes, [prompt_of()], ROOM).budget_ms == 12.0


def test_speculative_rows_count_as_decodes(table):
    one = decider_of(table).decide(NOW, decodes_of([2000] * 16), [prompt_of()], ROOM)
    four = decider_of(table).decide(NOW, decodes_of([2000] * 64), [prompt_of()], ROOM)
    assert four.chunk_tokens == chunk_of(table, 64, 2000, max_chunk=5000) < one.chunk_tokens


def test_outside_the_domain_decodes_run_alone_but_for_a_block_now_and_then(table):
    decider, decodes = decider_of(table), decodes_of([2000] * 97)  # one more than was measured
    taken = [decider.decide(NOW, decodes, [prompt_of()], ROOM) for _ in range(3 * OUTSIDE_PERIOD)]
    assert all(decision.outside for decision in taken)
    assert [i for i, decision in enumerate(taken, 1) if decision.chosen] == [8, 16, 24]
    assert {decision.chosen for decision in taken if decision.chosen} == {((0, 16),)}
    assert taken[0].bound_ms is None


def test_outside_the_domain_without_decodes_a_block_at_a_time(table):
    beyond = prompt_of(target=90_000, computed=71_000, begun=True)
    decision = decider_of(table, "sloweave:align=64").decide(NOW, Decodes(), [beyond], ROOM)
    assert decision.outside
    assert decision.chosen == ((0, 64),)


def test_a_policy_that_gives_nothing_does_not_stop_the_engine(table):
    """No pages for the first in line, nobody decodes, and nothing but a prompt that has begun can change that."""
    prompts = [prompt_of("first", arrival_ms=0.0), prompt_of("begun", 5000, 4990, begun=True, arrival_ms=1.0)]
    full = Room(places=0, pages=0, page_tokens=16, max_batch_tokens=8192)
    assert decider_of(table, "fixed-64").decide(NOW, Decodes(), prompts, full).chosen == ((1, 10),)


@pytest.mark.parametrize(
    "name", ["fixed-128", "token_budget-256", "sarathi_edf-256", "slidingserve-512", "qoserve-512"]
)
def test_every_policy_of_the_simulator_decides_here(table, name):
    decision = decider_of(table, name).decide(NOW, decodes_of([500] * 8), [prompt_of()], ROOM)
    assert 0 < decision.chunk_tokens <= 512
    decider_of(table, name).over(TICKS_PER_MS, 128)


def test_unequal_contexts_reach_the_table(table):
    rng = np.random.default_rng(0)
    contexts = rng.integers(100, 4000, 16).tolist()
    decision = decider_of(table).decide(NOW, decodes_of(contexts), [prompt_of()], ROOM)
    mean = -(-sum(contexts) // 16)
    assert decision.chunk_tokens == chunk_of(table, 16, mean, max_chunk=5000, longest_context=max(contexts))


def test_warming_up_leaves_nothing_behind(table):
    decider = decider_of(table)
    warm_up(decider, 16)
    before = decider_of(table).decide(NOW, decodes_of([2000]), [prompt_of()], ROOM)
    assert decider.decide(NOW, decodes_of([2000]), [prompt_of()], ROOM) == before


def test_a_batch_that_was_not_measured_is_counted_as_by_order(table):
    """Chunks beside decodes of short contexts were never seen, those beside long ones were."""
    d = DOMAIN
    edges = {
        "decodes": (d.max_decodes,),
        "context_tokens": (1000, d.max_context_tokens),
        "chunk_tokens": (d.max_chunk_tokens,),
        "prefix_tokens": (d.max_prefix_tokens,),
    }
    measured = {
        Scene.DECODE: np.ones((1, 2), bool),
        Scene.PREFILL: np.ones((1, 1), bool),
        Scene.MIXED: np.array([False, True]).reshape(1, 2, 1, 1),
    }
    holed = table_of(replace(table.arrays, support=Support(edges, measured)), fingerprint=HERE)
    prompts = [prompt_of(target=5000, begun=True)]
    for context, by_order in ((500, True), (2000, False)):
        decision = decider_of(holed).decide(NOW, decodes_of([context] * 16), prompts, ROOM)
        assert decision.chunk_tokens > 0
        assert decision.by_order is by_order
        assert not decider_of(table).decide(NOW, decodes_of([context] * 16), prompts, ROOM).by_order


def test_admission_is_refused(table):
    with pytest.raises(UsageError, match="admission=yes refuses requests, which a scheduler inside vLLM cannot"):
        decider_of(table, "sloweave:admission=yes")


def test_no_table_no_start(table, tmp_path):
    path = tmp_path / "table.json"
    with pytest.raises(UsageError, match="no table or no target"):
        load_table(Options(table=str(path)), HERE)
    with pytest.raises(TableFormatError, match="cannot be read"):
        load_table(Options(table=str(path), tpot_ms=25), HERE)
    table.save(path)
    assert load_table(Options(table=str(path), tpot_ms=25), HERE).document == table.document
    with pytest.raises(
        FingerprintMismatchError, match=r"table.json and this engine: .*device_kind: 'cpu' against 'cuda'"
    ):
        load_table(Options(table=str(path), tpot_ms=25), HERE.model_copy(update={"device_kind": "cuda"}))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(TableFormatError):
        load_table(Options(table=str(path), tpot_ms=25), HERE)


def test_refuted_and_uncertified_tables_do_not_schedule(table, tmp_path):
    path = tmp_path / "table.json"
    table_of(table.arrays, fingerprint=HERE).save(path)
    with pytest.raises(RefutedTableError, match="nothing is certified"):
        load_table(Options(table=str(path), tpot_ms=25), HERE)
    concern = ConcernV1(name="test_session", grade=Grade.DO_NOT_USE, reason="refuted", advice="measure again")
    certificate = table.document.certificate
    table_of(table.arrays, fingerprint=HERE, certificate=certificate, verdict=VerdictV1.of([concern])).save(path)
    with pytest.raises(RefutedTableError, match="do not use: refuted"):
        load_table(Options(table=str(path), tpot_ms=25), HERE)
    allowed = Options(table=str(path), tpot_ms=25, allow_refuted=True)
    assert load_table(allowed, HERE).document.verdict.grade is Grade.DO_NOT_USE


def test_options_are_strict():
    assert options_of({}) == options_of(None) == Options()
    assert options_of({"chunkfit": {"tpot_ms": 25, "policy": "fixed-64"}}).tpot_ms == 25
    with pytest.raises(UsageError, match=r"--additional-config, chunkfit.tpot: Extra inputs.*expected options among"):
        options_of({"chunkfit": {"tpot": 25}})
    with pytest.raises(UsageError, match=r"chunkfit.tpot_ms: Input should be greater than 0, found '-1'"):
        options_of({"chunkfit": {"tpot_ms": -1}})
    with pytest.raises(UsageError, match="chunkfit: Input should be"):
        options_of({"chunkfit": 25})


@pytest.mark.parametrize(
    ("said", "target"), [("12.5", 12.5), (8, 8.0), ("fast", 25.0), (-1, 25.0), (None, 25.0), ([], 25.0)]
)
def test_a_clients_target_cannot_harm_the_engine(said, target):
    assert request_target_ms({"tpot_ms": said}, "tpot_ms", 25.0) == target
    assert request_target_ms(None, "tpot_ms", None) is None
