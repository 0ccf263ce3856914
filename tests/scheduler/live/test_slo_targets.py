"""SloTargets in multiples of the device's own decode-only iteration, and workloads made with them."""

import pytest
from support.live_runs import synthetic_table
from support.serving import workload

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.live.open import limits_of
from chunkfit.scheduler.live.slo_targets import maker, refused_note, require_room, targets_for
from chunkfit.scheduler.serving_state import Limits
from chunkfit.tables import Batch

SPEC = "mixed:prompt_scale=0.5x"


def test_multiples_are_of_the_decode_only_iteration():
    table = synthetic_table()
    found = targets_for(table, limits_of(table, 40, None), SPEC, "1s", "2.5x")
    assert found.decodes == 40
    assert 300 < found.context_tokens < 800
    assert found.decode_ms == table.expected_ms(Batch.of(40, found.context_tokens))
    assert (found.ttft_ms, found.tpot_ms) == (1000.0, 2.5 * found.decode_ms)
    assert "2.5 times" in found.title()


@pytest.mark.parametrize("text", ["x", "-1x", "0x", "infx", "nanx", "3", "3 x ms"])
def test_a_target_that_cannot_be_read(text):
    table = synthetic_table()
    with pytest.raises(UsageError, match="--tpot"):
        targets_for(table, limits_of(table, None, None), SPEC, "1s", text)


def test_the_workload_has_the_targets_and_its_own_options():
    table = synthetic_table()
    targets = targets_for(table, limits_of(table, None, None), SPEC, "900ms", "30ms")
    made = maker(SPEC, targets)(4.0, 25.0, 3)
    assert len(made.requests) == 100
    assert (made.requests["tpot_ms"] == 30).all()
    assert (made.requests["ttft_ms"] == 900).all()
    assert "prompt_scale=0.5x" in made.spec
    sooner = maker(SPEC, targets)(8.0, 25.0, 3).requests[:100]
    assert (sooner["prompt_tokens"] == made.requests["prompt_tokens"]).all()
    assert sooner["arrival_ms"][-1] == pytest.approx(made.requests["arrival_ms"][-1] / 2)


@pytest.mark.parametrize("option", ["rate=5", "requests=10", "tpot=25ms", "ttft=1s", "slowdown=5x"])
def test_what_the_run_sets_is_not_said_in_the_workload(option):
    table = synthetic_table()
    targets = targets_for(table, limits_of(table, None, None), SPEC, "900ms", "30ms")
    with pytest.raises(UsageError, match=rf"{option.partition('=')[0]} is set by the run itself"):
        maker(f"mixed:{option}", targets)


def test_room_for_no_request_at_all_is_an_error_and_for_some_a_note():
    requests = workload(3, prompt_tokens=[100, 200, 300], output_tokens=20)
    assert refused_note(requests, Limits(4, pages=20)) is None
    assert refused_note(requests, Limits(4, pages=15)) == "1 of 3 requests have more than 240 tokens and are refused"
    with pytest.raises(UsageError, match=r"the shortest of 3 requests has 120 tokens.*7 KV pages.*more --kv-tokens"):
        require_room(requests, Limits(4, pages=7))
    require_room(requests, Limits(4, pages=8))
