"""What an iteration computed, told from vLLM's requests, and when it began and ended."""

from types import SimpleNamespace

import pytest

from chunkfit.integrations.vllm.work import Stopwatch, Work, work_of


def request(prompt, computed):
    """As vLLM leaves it after schedule(): `computed` counts the iteration in hand."""
    return SimpleNamespace(num_prompt_tokens=prompt, num_computed_tokens=computed)


def test_decodes_and_chunks_are_told_apart():
    requests = {
        "decode": request(100, 131),
        "middle": request(500, 300),
        "last": request(500, 500),
        "new": request(7, 7),
    }
    tokens = {"decode": 1, "middle": 100, "last": 200, "new": 7}
    assert work_of(tokens, {}, requests) == Work([131], [(100, 200), (200, 300), (7, 0)])


def test_the_last_prompt_token_alone_is_a_chunk_and_the_first_decode_is_none():
    assert work_of({"a": 1}, {}, {"a": request(100, 100)}) == Work([], [(1, 99)])
    assert work_of({"a": 1}, {}, {"a": request(100, 101)}) == Work([101], [])


def test_speculative_tokens_are_rows_of_their_own():
    work = work_of({"a": 4, "b": 1}, {"a": [-1, -1, -1]}, {"a": request(10, 34), "b": request(10, 20)})
    assert work == Work([31, 32, 33, 34, 20], [])
    assert work.batch().decodes == 5


def test_what_a_preempted_request_computes_again_is_a_chunk():
    assert work_of({"a": 25}, {}, {"a": request(10, 25)}) == Work([], [(25, 0)])
    assert work_of({"a": 20}, {}, {"a": request(10, 45)}) == Work([], [(20, 25)])


def test_an_empty_iteration_is_none():
    assert work_of({}, {}, {}) is None


def test_one_iteration_at_a_time_is_timed_from_its_schedule():
    watch = Stopwatch()
    watch.scheduled("a", 10.0)
    assert watch.updated(10.5) == ("a", 0.5)
    watch.scheduled("b", 12.0)  # the host was busy meanwhile
    assert watch.updated(12.25) == ("b", 0.25)


def test_of_two_under_way_each_begins_when_the_other_is_over():
    watch = Stopwatch()
    watch.scheduled("a", 10.0)
    watch.scheduled("b", 10.01)
    assert watch.updated(10.5) == ("a", 0.5)
    watch.scheduled(None, 10.51)
    noted, seconds = watch.updated(10.75)
    assert (noted, seconds) == ("b", pytest.approx(0.25))
    assert watch.updated(10.76)[0] is None
