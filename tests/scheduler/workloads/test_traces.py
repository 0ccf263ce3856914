"""Traces and files of one's own: read exactly, refused by line where they cannot be."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfit.files.errors import LogFormatError
from chunkfit.scheduler.workloads.registry import workload
from chunkfit.scheduler.workloads.traces import PrefixCache

TARGETS = "ttft=1s,tpot=25ms"
AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:15:46.6805900,374,44",
    "2023-11-16 18:15:50.9995900,396,109",
    "2023-11-17 00:00:00.0000000,879,55",
]


def write(folder, name, lines):
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_azure_times_are_ms_since_the_first(tmp_path):
    path = write(tmp_path, "conv.csv", AZURE)
    made = workload(f"azure:file={path},{TARGETS}", 0).requests
    assert made["arrival_ms"] == pytest.approx([0.0, 4319.0, 20_653_319.41])
    assert made["prompt_tokens"].tolist() == [374, 396, 879]
    assert made["output_tokens"].tolist() == [44, 109, 55]


def test_a_trace_is_stretched_to_a_rate_cut_to_its_first_requests_or_given_other_arrivals(tmp_path):
    path = write(tmp_path, "conv.csv", AZURE)
    stretched = workload(f"azure:file={path},{TARGETS},rate=4", 0).requests
    assert stretched["arrival_ms"][-1] == pytest.approx(500)
    assert stretched["arrival_ms"][1] / stretched["arrival_ms"][2] == pytest.approx(4319.0 / 20_653_319.41)
    assert len(workload(f"azure:file={path},{TARGETS},requests=2", 0).requests) == 2
    drawn = workload(f"azure:file={path},{TARGETS},arrivals=poisson,rate=4", 0).requests
    assert drawn["arrival_ms"][-1] < 10_000


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2023-11-16 18:15:46.6805899,1,1", r"line 5, column TIMESTAMP: .* rows in order of arrival"),
        ("yesterday,1,1", "line 5, column TIMESTAMP: 'yesterday'; expected a time such as"),
        ("2023-11-18 00:00:00+00:00,1,1", "line 5, column TIMESTAMP"),
        ("2023-11-18 00:00:00,0,1", "line 5, column ContextTokens: '0'; expected a whole number, 1 or more"),
        ("2023-11-18 00:00:00,1,1.5", "line 5, column GeneratedTokens"),
    ],
)
def test_wrong_lines_are_refused_by_place(tmp_path, line, message):
    path = write(tmp_path, "conv.csv", [*AZURE, line])
    with pytest.raises(LogFormatError, match=message):
        workload(f"azure:file={path},{TARGETS}", 0)


def test_a_cut_last_line_is_left_out_and_told(tmp_path):
    path = tmp_path / "conv.csv"
    path.write_text("\n".join(AZURE))
    made = workload(f"azure:file={path},{TARGETS}", 0)
    assert len(made.requests) == 2
    assert made.notes == ("1 rows: the last line is cut off (first: line 4)",)


def mooncake(folder, rows):
    keys = ("timestamp", "input_length", "output_length", "hash_ids")
    return write(folder, "trace.jsonl", [json.dumps(dict(zip(keys, row, strict=True))) for row in rows])


def test_mooncake_hits_become_cached_tokens(tmp_path):
    rows = [(0, 1500, 5, [1, 2, 3]), (10, 1500, 5, [1, 2, 4]), (20, 1024, 5, [1, 2]), (30, 600, 5, [9, 2])]
    path = mooncake(tmp_path, rows)
    made = workload(f"mooncake:file={path},{TARGETS}", 0)
    # The whole prompt of the third is kept, and its last token is computed all the same; block 2 of the fourth is
    # kept, but what comes before it is not.
    assert made.requests["cached_tokens"].tolist() == [0, 1024, 1023, 0]
    assert made.notes == ("prefix cache of 500,000 tokens: 44.3% of the prompt tokens hit",)
    assert not workload(f"mooncake:file={path},{TARGETS},cache=0", 0).requests["cached_tokens"].any()
    with pytest.raises(LogFormatError, match="line 2, column timestamp: 5; expected rows in order of arrival"):
        workload(f"mooncake:file={mooncake(tmp_path, [rows[1], (5, 1, 1, [])])},{TARGETS}", 0)
    with pytest.raises(LogFormatError, match=r"column hash_ids: .* expected whole numbers"):
        workload(f"mooncake:file={mooncake(tmp_path, [(5, 1, 1, ['a'])])},{TARGETS}", 0)


def test_the_least_recently_used_prefix_goes_first_its_end_before_its_start():
    cache = PrefixCache(4 * 512 + 511)
    assert cache.hit_tokens([1, 2]) == 0
    assert cache.hit_tokens([3, 4]) == 0
    assert cache.hit_tokens([1, 2]) == 1024  # 3, 4 are now the oldest
    assert cache.hit_tokens([5]) == 0  # evicts 4
    assert cache.hit_tokens([3, 4]) == 512  # 4 comes back, 2 goes
    assert cache.hit_tokens([1, 2]) == 512


def test_a_prompt_longer_than_the_cache_keeps_its_start():
    cache = PrefixCache(2 * 512)
    cache.hit_tokens([1, 2, 3, 4])
    assert cache.hit_tokens([1, 2, 3, 4]) == 1024


@given(st.lists(st.lists(st.integers(0, 12), max_size=6, unique=True), max_size=25), st.integers(0, 8))
def test_the_cache_holds_the_most_recent_blocks(prompts, blocks):
    """Against a list of all touches, searched from its end."""
    cache, touches = PrefixCache(blocks * 512), []
    for prompt in prompts:
        kept = set(list(dict.fromkeys(reversed(touches)))[:blocks])
        hits = next((i for i, block in enumerate(prompt) if block not in kept), len(prompt))
        assert cache.hit_tokens(prompt) == hits * 512
        touches += reversed(prompt)


def test_own_rows_keep_what_they_say_and_get_the_rest(tmp_path):
    lines = ["arrival_ms,prompt_tokens,output_tokens,tpot_ms,priority", "5,100,10,,", "7.5,200,20,50,1"]
    made = workload(f"requests:file={write(tmp_path, 'mine.csv', lines)},{TARGETS}", 0).requests
    assert made["arrival_ms"].tolist() == [0, 2.5]
    assert made["tpot_ms"].tolist() == [25, 50]
    assert made["priority"].tolist() == [0, 1]
    rows = [{"prompt_tokens": 100, "output_tokens": 10, "cached_tokens": 64, "batch_class": 1, "ttlt_ms": 9000.0}]
    path = write(tmp_path, "mine.jsonl", [json.dumps(row) for row in rows])
    made = workload(f"requests:file={path},{TARGETS},arrivals=gamma,rate=2", 0).requests
    assert (made["cached_tokens"][0], made["batch_class"][0], made["ttlt_ms"][0]) == (64, 1, 9000)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["arrival_ms,prompt,output_tokens", "0,1,1"], "line 2: column prompt is unknown; expected some of arrival_ms"),
        (["arrival_ms,output_tokens", "0,1"], "line 2, column prompt_tokens: not there; expected a whole number"),
        (
            ["arrival_ms,prompt_tokens,output_tokens", "2,1,1", "1,1,1"],
            "arrival_ms: '1'; expected rows in order of arrival",
        ),
        (["arrival_ms,prompt_tokens,output_tokens", "2,1,1", ",1,1"], r"line 3, .*: ''; expected a time in every row"),
        (
            ["arrival_ms,prompt_tokens,output_tokens,priority", "2,1,1,200"],
            "priority: '200'; expected at most 127",
        ),
        (
            ["arrival_ms,prompt_tokens,output_tokens,tpot_ms", "2,1,1,x"],
            "tpot_ms: 'x'; expected a finite number",
        ),
        (["arrival_ms,prompt_tokens,output_tokens"], "no row; expected at least one request"),
    ],
)
def test_own_rows_that_cannot_be_are_refused(tmp_path, lines, message):
    with pytest.raises(LogFormatError, match=message):
        workload(f"requests:file={write(tmp_path, 'mine.csv', lines)},{TARGETS}", 0)


def test_lengths_are_drawn_by_seed_with_arrivals_of_their_own(tmp_path):
    path = write(tmp_path, "lengths.csv", ["num_prefill_tokens,num_decode_tokens", "74,918", "290,905", "1402,711"])
    spec = f"lengths:file={path},requests=500,rate=3,{TARGETS}"
    made = workload(spec, 0).requests
    assert set(zip(made["prompt_tokens"].tolist(), made["output_tokens"].tolist(), strict=True)) == {
        (74, 918),
        (290, 905),
        (1402, 711),
    }
    assert made.tobytes() == workload(spec, 0).requests.tobytes()
    assert made.tobytes() != workload(spec, 1).requests.tobytes()


@pytest.fixture(scope="module")
def traces():
    if not os.environ.get("CHUNKFIT_PUBLIC_DATA"):
        pytest.skip("CHUNKFIT_PUBLIC_DATA is not set: no public traces")
    return Path(os.environ["CHUNKFIT_PUBLIC_DATA"]) / "traces"


# Azure's files end without a line break: the last row could be cut and is left out.
@pytest.mark.parametrize(("kind", "count"), [("code", 8818), ("conv", 19_365)])
def test_the_public_azure_traces(traces, kind, count):
    made = workload(f"azure:file={traces / 'azure' / f'AzureLLMInferenceTrace_{kind}.csv'},{TARGETS}", 0)
    assert len(made.requests) == count
    hours = made.requests["arrival_ms"][-1] / 3.6e6
    assert 0.9 < hours < 1.0
    waits = np.diff(made.requests["arrival_ms"])
    variation = waits.std() / waits.mean()
    assert (variation > 10) == (kind == "code"), "the code trace comes in bursts"


def test_the_public_mooncake_trace(traces):
    spec = f"mooncake:file={traces / 'mooncake' / 'synthetic_trace.jsonl'},{TARGETS}"
    hits = [workload(f"{spec},cache={size}", 0).requests["cached_tokens"] for size in (0, 500_000, 100_000_000)]
    assert len(hits[0]) == 3993
    assert (hits[0] <= hits[1]).all()
    assert (hits[1] <= hits[2]).all()
    assert hits[0].sum() < hits[1].sum() < hits[2].sum()


@pytest.mark.parametrize(
    ("path", "median"),
    [
        ("sharegpt/sharegpt_8k_filtered_stats_llama2_tokenizer.csv", 1730),
        ("arxiv/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv", 2730),
    ],
)
def test_the_public_lengths(traces, path, median):
    made = workload(f"lengths:file={traces / path},requests=20000,rate=5,{TARGETS}", 0).requests
    assert np.median(made["prompt_tokens"]) == pytest.approx(median, rel=0.05)
