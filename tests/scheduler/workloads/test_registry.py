"""Workloads by text: seeded, canonical, validated, with errors that say what to do."""

import numpy as np
import pytest

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.dtypes import UNKNOWN_OUTPUT, WORKLOAD
from chunkfit.scheduler.workloads.registry import KINDS, workload
from chunkfit.scheduler.workloads.workload import Workload, empty_requests

SYNTHETIC = [name for name, kind in KINDS.items() if not kind.file_options]


def alone(requests):
    """A made-up time to first token alone: 0.2 ms a token after hits."""
    return 0.2 * (requests["prompt_tokens"] - requests["cached_tokens"])


@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(name):
    made = workload(name, 7, alone)
    assert made.requests.dtype == WORKLOAD
    assert made.sha256() == workload(name, 7, alone).sha256()
    assert made.sha256() == workload(made.spec, 7, alone).sha256(), "the canonical spec is the whole recipe"
    assert made.sha256() != workload(name, 8, alone).sha256()
    assert made.spec == workload(made.spec, 7, alone).spec


def test_published_shapes():
    mixed = workload("mixed", 0).requests
    assert len(mixed) == 950
    assert mixed["prompt_tokens"].max() <= 8192
    assert set(mixed["tpot_ms"]) == {25.0}
    assert np.median(workload("long", 0).requests["prompt_tokens"]) == pytest.approx(3574, rel=0.06)
    assert np.median(workload("chat:requests=5000", 0).requests["prompt_tokens"]) == pytest.approx(256, rel=0.06)


def test_rate_moves_arrivals_alone_and_more_requests_only_add():
    slow, fast = workload("mixed:rate=50", 3).requests, workload("mixed:rate=100", 3).requests
    assert fast["arrival_ms"] == pytest.approx(slow["arrival_ms"] / 2)
    moved = fast.copy()
    moved["arrival_ms"] = slow["arrival_ms"]
    assert moved.tobytes() == slow.tobytes()
    longer = workload("mixed:rate=50,requests=2000,estimate=none", 3).requests[:950]
    shorter = workload("mixed:rate=50,estimate=none", 3).requests
    assert longer.tobytes() == shorter.tobytes()


def test_lengths_are_scaled_and_cut():
    plain = workload("long", 0).requests
    made = workload("long:prompt_scale=2x,output_scale=0.5x,max_prompt=6000", 0)
    assert (made.requests["prompt_tokens"] == np.minimum(2 * plain["prompt_tokens"], 6000)).all()
    assert np.abs(made.requests["output_tokens"] - plain["output_tokens"] / 2).max() <= 0.5
    assert "prompts cut to 6,000 tokens" in made.notes[0]


def test_slowdown_sets_targets_by_application_with_a_floor():
    made = workload("mixed-v1", 0, alone).requests
    first, second = made["application"] == 0, made["application"] == 1
    assert made["ttft_ms"][first] == pytest.approx(np.maximum(5 * alone(made[first]), 500))
    assert made["ttft_ms"][second] == pytest.approx(np.maximum(10 * alone(made[second]), 500))
    assert (made["tpot_ms"] == np.where(second, 80.0, 40.0)).all()
    assert (made["ttft_ms"] == 500).any()
    assert (made["ttft_ms"] > 500).any()


def test_a_stated_ttft_replaces_a_slowdown_and_the_reverse():
    assert set(workload("arxiv-v1:ttft=3s", 0).requests["ttft_ms"]) == {3000.0}
    spec = workload("mixed:slowdown=5x", 0, alone).spec
    assert "ttft=1.1s" not in spec
    assert "ttft_floor=500ms" in spec, "what is assumed is said"


def test_a_negative_seed_is_refused():
    with pytest.raises(UsageError, match="seed -1; expected 0 or more"):
        workload("mixed", -1)


def test_classes_priorities_guard():
    spec = "mixed:requests=20000,batch_share=0%/50%,ttlt=600s,priorities=70%/20%/10%,guard_share=5%"
    made = workload(spec, 1).requests
    batch, second = made["batch_class"] == 1, made["application"] == 1
    assert not batch[~second].any()
    assert batch[second].mean() == pytest.approx(0.5, abs=0.03)
    assert (made["ttlt_ms"][batch] == 600_000).all()
    assert np.isnan(made["ttlt_ms"][~batch]).all()
    assert np.isnan(made["ttft_ms"][batch]).all()
    assert np.isnan(made["tpot_ms"][batch]).all()
    assert (made["tpot_ms"][~batch] == 25).all()
    assert np.bincount(made["priority"]) / len(made) == pytest.approx([0.7, 0.2, 0.1], abs=0.02)
    assert made["guard"].mean() == pytest.approx(0.05, abs=0.01)


def test_output_estimates():
    made = workload("mixed-v1:ttft=1s", 0).requests
    for application in (0, 1):
        here = made[made["application"] == application]
        guess = np.ceil(here["output_tokens"].mean() + 2 * here["output_tokens"].std())
        assert (here["output_estimate"] == guess).all()
    exact = workload("chat:estimate=true", 0).requests
    assert (exact["output_estimate"] == exact["output_tokens"]).all()
    assert (workload("chat:estimate=none", 0).requests["output_estimate"] == UNKNOWN_OUTPUT).all()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("chats", "workload 'chats' is unknown; expected one of: chat, "),
        ("mixed:rate", "'rate'; expected option=value, as in mixed:rate=85"),
        ("mixed:", "''; expected option=value"),
        ("mixed:rate=85,rate=90", "rate is given twice; expected once"),
        ("mixed:rat=85", "option 'rat' is unknown; .* did you mean rate?"),
        ("mixed:rate=0", "rate '0': expected a number above 0"),
        ("mixed:rate=nan", "rate 'nan': expected a number above 0"),
        ("mixed:requests=1.5", "requests '1.5': expected a whole number from 1"),
        ("mixed:requests=²", "expected a whole number from 1"),
        ("mixed:ttft=1000", "ttft '1000': expected a number with its unit"),
        ("mixed:tpot=0ms", "tpot '0ms': expected a time above 0"),
        ("mixed:prompt_scale=2", "prompt_scale '2': expected a factor with its x"),
        ("mixed:prompt_scale=1000000x", "prompt_tokens scaled by 1e.06 reach .* expected a smaller factor"),
        ("mixed:ttft=1s,slowdown=5x", "ttft and slowdown both set the TTFT target"),
        ("mixed:slowdown=5x", "slowdown needs a cost table"),
        ("mixed:ttft_floor=1s", "ttft_floor has no meaning without slowdown"),
        ("mixed:file=a.csv", "file has no meaning here"),
        ("mixed:cache=1000", "cache has no meaning here"),
        ("mixed:cv=2", "cv has no meaning for arrivals=poisson"),
        ("mixed:arrivals=gamma,peak=2x", "peak has no meaning for arrivals=gamma"),
        ("mixed:arrivals=steady", "arrivals 'steady': expected one of poisson, gamma, on-off, square, trace"),
        ("mixed:arrivals=trace", "no arrivals of its own; expected a process and a rate"),
        ("mixed:batch_share=10%", "ttlt is not given for every request; expected ttlt=600s"),
        ("mixed:priorities=70%/20%", "priorities sum to 90%; expected 100%"),
        ("mixed-v1:tpot=1ms/2ms/3ms,ttft=1s/2s/3s,estimate=maybe", "estimate 'maybe': expected one of none, true"),
        ("azure:ttft=1s,tpot=25ms", "file is not given"),
        ("azure:file=/nowhere.csv,ttft=1s,tpot=25ms", "/nowhere.csv: cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused(spec, message):
    with pytest.raises(UsageError, match=message):
        workload(spec, 0)


def test_a_list_must_reach_every_application():
    requests = "mixed-v1:ttft=1s/2s,tpot=25ms"
    assert set(workload(requests, 0).requests["ttft_ms"]) == {1000.0, 2000.0}
    made = workload("bursty", 0)
    assert "arrivals=on-off" in made.spec
    assert "peak=2.93x" in made.spec


def valid():
    requests = empty_requests(3)
    requests["arrival_ms"] = [0, 1, 2]
    requests["prompt_tokens"], requests["output_tokens"] = 10, 5
    requests["ttft_ms"], requests["tpot_ms"] = 1000, 25
    return requests


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("arrival_ms", 5.0),
        ("arrival_ms", np.nan),
        ("arrival_ms", -1.0),
        ("prompt_tokens", 0),
        ("cached_tokens", 10),
        ("cached_tokens", -1),
        ("output_tokens", 0),
        ("output_estimate", 0),
        ("ttft_ms", np.nan),
        ("ttft_ms", 0),
        ("tpot_ms", np.inf),
        ("ttlt_ms", 5.0),
        ("batch_class", 1),
        ("batch_class", 2),
        ("application", -1),
        ("priority", -1),
        ("guard", 2),
    ],
)
def test_an_impossible_request_is_refused_by_row_and_field(field, value):
    Workload("made", 0, "made", valid())
    wrong = valid()
    wrong[field][1] = value
    with pytest.raises(UsageError, match=r"made: row [12] \(from 0\), \w+: .*; expected"):
        Workload("made", 0, "made", wrong)


def test_no_requests_and_other_arrays_are_refused():
    for array in (valid()[:0], np.zeros(3), valid().reshape(3, 1)):
        with pytest.raises(UsageError, match="expected at least one row"):
            Workload("made", 0, "made", array)


def test_a_workload_cannot_be_changed():
    requests = valid()
    made = Workload("made", 0, "made", requests)
    requests["prompt_tokens"][0] = 99
    assert made.requests["prompt_tokens"][0] == 10
    with pytest.raises(ValueError, match="read-only"):
        made.requests["prompt_tokens"][0] = 11
