"""Whatever is wrong, thin or unknown is said, worst first, and nothing else is."""

from dataclasses import replace

import pytest

from chunkfit.cli.report.concerns import ConcernLevel, concerns
from chunkfit.profiler.condition import SentinelVerdict
from chunkfit.tables.document import Finding


def texts(evidence):
    return [f"{concern.level.value} {concern.text}" for concern in concerns(evidence)]


def with_session(evidence, **update):
    meta = evidence.profile.meta
    sessions = meta.sessions | {"test": meta.sessions["test"].model_copy(update=update)}
    return replace(evidence, profile=replace(evidence.profile, meta=meta.model_copy(update={"sessions": sessions})))


def with_table(evidence, **update):
    return replace(evidence, table=evidence.table.model_copy(update=update))


def test_a_small_synthetic_table_is_synthetic_and_thin_and_no_more(evidence):
    said = texts(evidence)
    assert said[0] == "warning synthetic: the times come from a formula, no device was measured"
    assert any("thin scenes, in calibration points: decode 107, prefill 107, mixed 106" in text for text in said)
    assert any("takes 299" in text for text in said)
    allowed = ("synthetic", "thin scenes", "nodes of the grid", "monotone closure")
    assert all(any(word in text for word in allowed) for text in said), said


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (
            {"sentinel": SentinelVerdict(n=9, median_ms=1.0, relative_iqr=0.2, trend=0.0, quiet=False)},
            "warning session test: the machine was NOT quiet: relative IQR 20.0%",
        ),
        (
            {"sentinel": SentinelVerdict(n=2, median_ms=1.0, relative_iqr=None, trend=None, quiet=None)},
            "unknown session test: whether the machine was quiet is unknown: 2 sentinel iterations, 6 are needed",
        ),
        ({"flagged": 7}, "warning session test: 7 of 320 points under a throttle"),
        ({"skipped": 5, "planned": 325}, "warning session test: 5 points did not fit the device"),
        ({"planned": 330}, "warning session test: 10 of 330 planned points were not measured"),
    ],
)
def test_a_session_that_went_wrong(evidence, update, expected):
    changed = with_session(evidence, **update)
    assert any(text.startswith(expected) for text in texts(changed)), texts(changed)
    assert not any(text.startswith(expected) for text in texts(evidence))


@pytest.mark.parametrize(
    ("factor", "value", "expected"),
    [
        ("unequal_contexts", None, "unknown batches with unequal contexts: not measured"),
        ("several_chunks", None, "unknown batches with several chunks: not measured"),
        ("session_drift", None, "unknown drift between sessions: not measured"),
        ("session_drift", 1.2, "warning sessions differ by 20%"),
    ],
)
def test_factors_that_nobody_measured(evidence, factor, value, expected):
    factors = evidence.table.factors.model_copy(update={factor: value})
    assert any(text.startswith(expected) for text in texts(with_table(evidence, factors=factors)))


def test_what_is_not_certified_or_not_there_is_wrong(evidence):
    assert "wrong nothing is certified: the bound is a guess" in texts(with_table(evidence, certificate=None))
    assert any(
        text.startswith("wrong a row is 'mean:20'") for text in texts(with_table(evidence, aggregation="mean:20"))
    )
    assert any("names no profile file" in text for text in texts(with_table(evidence, profile_sha256=None)))
    arrays = replace(evidence.arrays, ladders={"mixed": evidence.arrays.ladders["mixed"]})
    assert "warning no table for decode and prefill batches: it refuses them" in texts(replace(evidence, arrays=arrays))


def test_findings_come_first(evidence):
    found = concerns(replace(evidence, findings=(Finding("checksum", "$.content_sha256", "stale"),)))
    assert (found[0].level, found[0].text) == (ConcernLevel.WRONG, "[checksum] $.content_sha256: stale")
    levels = [list(ConcernLevel).index(concern.level) for concern in found]
    assert levels == sorted(levels)


def test_a_fit_that_cannot_be_repeated_or_differs(evidence):
    assert any(
        text.startswith("unknown the fit could not be done again: no lightgbm")
        for text in texts(replace(evidence, repeat=None, not_repeated="no lightgbm"))
    )
    other = replace(evidence, repeat=replace(evidence.repeat, worst_difference=0.031))
    assert any("bounds that differ by up to 3.1% at a node" in text for text in texts(other))


def test_a_log_says_what_it_does_not_say(imported):
    said = "\n".join(texts(imported))
    for words in (
        "unknown whether the machine was quiet: a log has no sentinel",
        "device_kind, sm_count, cpu_threads, model_shape, dtype",
        "imported from log.csv (table), sessions cut by time; stated by the user and not by the log: ",
        "no table for prefill batches",
        "drift between sessions: not measured",
    ):
        assert words in said
