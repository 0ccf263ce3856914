"""How a log becomes three sessions: by time, by points that no two sessions share, or by the replicates of each."""

import numpy as np
import pytest

from chunkfit.files.errors import UsageError
from chunkfit.profiler.importers.samples import LoggedIteration
from chunkfit.profiler.importers.sessions import (
    by_points,
    by_replicates,
    columns_of,
    domain_of,
    parse_shares,
    parse_split,
)


@pytest.fixture(scope="module")
def samples():
    """3 repeats of 100 points, the repeats one after the other; the latency is the place in the log."""
    rng = np.random.default_rng(0)
    points = [(int(n), 64 if n else 0, int(c), 0) for n, c in zip(rng.integers(0, 20, 100), range(1, 101), strict=True)]
    return [LoggedIteration.of_totals(*points[i % 100], latency_ms=i + 1.0) for i in range(300)]


def test_by_time_the_past_answers_for_the_future(samples):
    columns = columns_of(samples, "time", (50, 30, 20), 0)
    assert columns["latency_ms"].tolist() == [i + 1.0 for i in range(300)]
    assert columns["session"].tolist() == ["fit"] * 150 + ["calibrate"] * 90 + ["test"] * 60
    assert columns["order"].tolist() == [*range(150), *range(90), *range(60)]
    assert len(set(columns["point_id"].tolist())) == 300  # every row is a draw of its own
    assert set(columns["repeat"].tolist()) == {0}


def test_by_points_no_two_sessions_share_one(samples):
    columns = columns_of(samples, "points", (60, 20, 20), 0)
    where = {}
    for row in range(300):
        point = tuple(
            int(columns[name][row]) for name in ("decodes", "context_tokens", "chunk_tokens", "prefix_tokens")
        )
        where.setdefault(point, set()).add((str(columns["session"][row]), int(columns["point_id"][row])))
    assert len(where) == 100
    assert all(len(found) == 1 for found in where.values())
    counts = {s: int((columns["session"] == s).sum()) for s in ("fit", "calibrate", "test")}
    assert sum(counts.values()) == 300
    assert (counts["fit"], counts["calibrate"]) == pytest.approx((180, 60), abs=9)
    for session in counts:  # in the order of the log, and each point's repeats counted from 0
        here = columns["session"] == session
        assert np.all(np.diff(columns["latency_ms"][here]) > 0)
    assert sorted(columns["repeat"].tolist()) == [0] * 100 + [1] * 100 + [2] * 100


def test_the_seed_decides_the_points_and_each_scene_has_its_share():
    points = np.asarray([(n, 8, 0, 0) for n in range(1, 51)] + [(n, 8, 5, 0) for n in range(1, 101)])
    session, _ = by_points(points, (60, 20, 20), seed=3)
    assert np.array_equal(session, by_points(points, (60, 20, 20), seed=3)[0])
    assert not np.array_equal(session, by_points(points, (60, 20, 20), seed=4)[0])
    assert np.bincount(session[:50]).tolist() == [30, 10, 10]
    assert np.bincount(session[50:]).tolist() == [60, 20, 20]
    few = [by_points(points[:count], (60, 20, 20), 0)[0] for count in (1, 3, 5)]
    assert [np.bincount(session, minlength=3).tolist() for session in few] == [[1, 0, 0], [2, 1, 0], [3, 1, 1]]


def test_by_replicates_every_session_has_every_batch_and_the_past_fits(samples):
    columns = columns_of(samples, "replicates", (60, 20, 20), 0)
    ids = {s: set(columns["point_id"][columns["session"] == s].tolist()) for s in ("fit", "calibrate", "test")}
    assert ids["fit"] == ids["calibrate"] == ids["test"]
    assert len(ids["fit"]) == 100
    assert columns["latency_ms"].tolist() == [i + 1.0 for i in range(300)]  # the repeats stand one after the other
    assert columns["repeat"].tolist() == [0] * 100 + [1] * 100 + [2] * 100


def test_replicates_are_shared_out_by_the_shares_and_one_each_at_least():
    counts = [1, 2, 3, 4, 5, 20, 1]
    points = np.repeat([(n, 8, 0, 0) for n in range(1, 8)], counts, axis=0)
    shuffled = np.random.default_rng(0).permutation(len(points))
    session, ids = by_replicates(points[shuffled], (60, 20, 20))
    found = [np.bincount(session[ids == point], minlength=3).tolist() for point in range(7)]
    assert found == [[1, 0, 0], [2, 0, 0], [1, 1, 1], [2, 1, 1], [3, 1, 1], [12, 4, 4], [1, 0, 0]]
    assert all((np.diff(session[ids == point]) >= 0).all() for point in range(7))
    heavy, _ = by_replicates(points, (1, 1, 98))
    assert np.bincount(heavy[-21:-1]).tolist() == [1, 1, 18]


def test_the_domain_is_what_the_log_holds():
    samples = [
        LoggedIteration.of_totals(64, 100, 0, 0, 1.0),
        LoggedIteration.of_totals(2, 1000, 256, 512, 1.0),
        LoggedIteration.of_totals(0, 7, 900, 600, 1.0, chunks=3),
    ]
    domain = domain_of(samples)
    assert (domain.max_decodes, domain.max_context_tokens) == (64, 1000)
    assert (domain.max_chunk_tokens, domain.max_prefix_tokens, domain.max_batch_tokens) == (900, 600, 900)
    assert (domain.kv_tokens, domain.context_length) == (6400, 1000)
    assert all(domain.refusal(s.n, s.k, s.c, s.u) is None for s in samples)
    assert domain_of(samples[:1]).max_chunk_tokens == 1  # one sample, one scene: still a domain


@pytest.mark.parametrize("text", ["60,20", "60,20,21", "100,0,0", "a,b,c", "60;20;20"])
def test_shares_are_three_percentages(text):
    with pytest.raises(UsageError, match="--shares"):
        parse_shares(text)


def test_splits_are_by_time_points_or_replicates():
    assert (parse_shares("50, 25,25"), parse_split("time")) == ((50, 25, 25), "time")
    assert parse_split("replicates") == "replicates"
    with pytest.raises(UsageError, match=r"--split 'rows': expected one of time, points, replicates"):
        parse_split("rows")
