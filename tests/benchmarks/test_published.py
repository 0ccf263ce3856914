"""The comparison with published evaluations: how runs are judged, what is compared with what, and the verdicts."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import published
import pytest
from shapes import sliding, sloweave, traces, trust
from shapes.paper import SLOWEAVE_FIGURES, SLOWEAVE_RATIOS
from shapes.picture import draw
from shapes.play import Job, Setting, play, requests_of, with_interpolated_gaps
from shapes.reasons import UNKNOWN, why_differs, why_failed
from shapes.static_grid import FINE, MANY, ONE, PAPER, PAPER_SET, static_sets
from shapes.verdicts import Beside, Ratio, best, claim, ratio, ratio_row
from support.serving import workload

from chunkfit.scheduler.capacity import Capacity
from chunkfit.scheduler.cost import SLOWEAVE, Formula
from chunkfit.scheduler.cost.cost_record import NO_LIMIT
from chunkfit.scheduler.cost.look_up import alone_ms
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.serving_metrics import CRITERIA
from chunkfit.scheduler.serving_state import Limits
from chunkfit.scheduler.simulate import simulate

FOLDER = os.environ.get("CHUNKFIT_PUBLIC_DATA")
public = pytest.mark.skipif(FOLDER is None, reason="CHUNKFIT_PUBLIC_DATA is not set: no traces here")
SETTING = Setting("affine", "per_token", 64)


def all_of(jobs):
    return [play(job) for job in jobs]


def test_an_interpolated_p99_is_numpys_of_the_gaps():
    """Gaps of 6, 5, 3 and 3 ms beside another prompt: the nearest rank is 6, NumPy's 0.99 quantile 5.97."""
    cost = Formula(overhead=2.0, decode=1.0, chunk_token=0.0625).cost()
    requests = workload(2, arrival_ms=[0.0, 6.0], prompt_tokens=[64, 80], output_tokens=[5, 1])
    run = simulate(requests, policy("fixed-48"), cost, cost, Limits(8, 1000), log=True)
    gaps_ms = [6.0, 5.0, 3.0, 3.0]
    assert run.results["largest_gap_ms"][0] == run.results["p99_gap_ms"][0] == 6
    found = with_interpolated_gaps(run)
    assert found["p99_gap_ms"][0] == pytest.approx(np.quantile(gaps_ms, 0.99)) == pytest.approx(5.97)
    assert np.isnan(found["p99_gap_ms"][1])
    assert run.results["p99_gap_ms"][0] == 6  # the run keeps its own


def test_iterations_are_no_gaps_of_a_request_that_was_preempted():
    requests = workload(3, prompt_tokens=40, output_tokens=60)
    cost = SLOWEAVE.cost()
    run = simulate(requests, policy("full"), cost, cost, Limits(8, 14), log=True)
    assert run.results["preemptions"].sum()
    with pytest.raises(ValueError, match=r"request \d+: \d+ iterations for 60 tokens"):
        with_interpolated_gaps(run)


def test_a_static_run_judged_by_a_target_is_the_run_under_that_target():
    judged = play(Job("mixed:requests=60", 3, "full", SETTING, (10.0, 25.0)))
    apart = [play(Job(f"mixed:requests=60,tpot={t}ms", 3, "full", SETTING))[0] for t in (10, 25)]
    assert judged == apart
    assert judged[0].good < judged[1].good


def test_time_alone_is_that_of_the_prompt_less_its_cached_part():
    requests = workload(2, prompt_tokens=[1000, 1000], cached_tokens=[0, 400])
    assert alone_ms(SLOWEAVE.cost(), requests, NO_LIMIT) == pytest.approx([0.75 + 6.0, 0.75 + 3.6], abs=1e-4)


@public
def test_the_parts_of_a_trace_are_the_trace():
    spec = traces.present(FOLDER)["azure code"].per_token
    parts = [requests_of(spec, i, traces.AFFINE) for i in range(10)]
    whole = requests_of(spec, 0, replace(traces.AFFINE, parts=1))
    assert all(len(part) == len(whole) // 10 for part in parts)
    assert all(part["arrival_ms"][0] == 0 for part in parts)
    for name in ("prompt_tokens", "output_tokens"):
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), whole[name][: 10 * len(parts[0])])
    np.testing.assert_allclose(np.diff(parts[3]["arrival_ms"]), np.diff(whole["arrival_ms"])[3 * 881 : 4 * 881 - 1])


def test_traces_that_are_not_there_are_skipped_with_a_reason(tmp_path):
    assert [row.value for row in traces.skipped(None)] == [None] * 3
    assert all("CHUNKFIT_PUBLIC_DATA is not set" in row.unit for row in traces.skipped(None))
    assert all("no azure/" in row.unit or "no mooncake/" in row.unit for row in traces.skipped(str(tmp_path)))
    assert not traces.present(None)
    assert not traces.present(str(tmp_path))


def test_a_ratio_is_one_of_means_and_its_range_that_of_seeds():
    assert ratio([1.0, 9.0], [2.0, 2.0]) == Ratio(2.5, 0.5, 4.5, 2)
    assert best({"even": [2.0, 2.0], "wild": [0.0, 5.0]}) == "wild"
    nothing = ratio_row("", ratio([1.0], [0.0]))
    assert nothing.value is None
    assert nothing.unit.startswith("nothing to compare")


@pytest.mark.parametrize(
    ("value", "least", "most", "verdict"),
    [
        (2.0, 2.0, None, "PASS"),
        (1.999, 2.0, None, "FAIL"),
        (float("nan"), 2.0, None, "FAIL"),
        (0.97, 0.97, 1.03, "PASS"),
        (1.031, 0.97, 1.03, "FAIL"),
    ],
)
def test_a_gate_is_held_or_not(value, least, most, verdict):
    row = claim("this", Ratio(value, value, value, 10), least, most)
    assert row.name.startswith(f"{verdict}: this, ")


def test_two_capacities_leave_open_what_their_bisections_do():
    ours, theirs = (Capacity(0.99, rate, above, (), True) for rate, above in ((2.0, 2.1), (1.0, 1.1)))
    found = sliding.bracket(ours, theirs, 10)
    assert (found.value, found.high) == (2.0, 2.1)
    assert found.low == pytest.approx(2.0 / 1.1)
    none = Capacity(0.99, 0.0, 1.0, (), True)
    assert np.isnan(sliding.bracket(ours, none, 10).value)


def test_the_least_and_the_most_of_the_workloads():
    rates = {sliding.SLIDING: (2.0, 6.0, 4.0), sliding.EDF: (1.0, 2.0, 4.0), sliding.QOSERVE: (2.0, 5.0, 8.0)}
    specs = {name: name for name in ("a", "b", "c")}
    found = {
        (spec, policy): Capacity(0.99, rate, 1.01 * rate, (), True)
        for policy, of in rates.items()
        for spec, rate in zip(specs, of, strict=True)
    }
    beside = list(sliding.over_others(specs, found, 10))
    assert [each.measured.value for each in beside] == [1.0, 3.0, 0.5, 1.2]
    assert [each.published for each in beside] == [1.25, 2.11, 1.097, 1.30]
    assert "(b)" in beside[1].what
    assert all(why_differs(each.what) != UNKNOWN for each in beside)


def test_each_part_has_to_lower_what_is_late():
    falling = {"none": [50.0, 60.0], "one": [45.0, 61.0], "two": [10.0, 10.0]}
    (row,) = sliding.falling("this", falling)
    assert row.name.startswith("PASS")
    assert (row.value, row.lo) == (2.0, -1.0)  # the mean falls by 2 at the first step, one seed's rises by 1
    (row,) = sliding.falling("this", falling | {"three": [10.0, 10.0]})
    assert row.name.startswith("FAIL")


def test_sets_hold_what_their_names_say():
    sets = static_sets(1)
    assert sets[PAPER_SET] == PAPER
    assert set(sets["fine chunks"]) < set(sets[FINE])
    assert {"fixed-64", "fixed-8192", "fixed-1024:prefills=8", "token-budget-2048"} <= set(sets[FINE])
    assert len(set(static_sets(8)[FINE])) == 3 * 56  # eighths of an octave, in multiples of 8 tokens


@pytest.fixture(scope="module")
def mixed():
    sets = {PAPER_SET: PAPER, FINE: (*PAPER, "token-budget-512")}
    return sloweave.of(all_of, "mixed", range(2), sets, (10.0, 25.0))


def test_what_is_compared_over_capacity(mixed):
    title, found = mixed.over(MANY, PAPER_SET, 10.0)
    assert title == f"mixed 85/s, batch 128, 10 ms, {MANY} over the best of paper's set, fixed-256"
    assert found.value > 2
    assert mixed.over(MANY, FINE, 10.0)[1].value < found.value
    for target_ms in (10.0, 25.0):  # with an exact cost no chunk makes a gap too long
        assert max(metrics.p99_gap_ms.p99 for metrics in mixed.figures[MANY, target_ms]) <= target_ms + 1e-4
        assert sloweave.printed(mixed, ONE, target_ms, "good requests") == [
            100 * share for share in mixed.values(ONE, target_ms, "good_share")
        ]


def test_every_printed_figure_can_be_measured():
    assert {key[0] for key in (*SLOWEAVE_FIGURES, *SLOWEAVE_RATIOS)} == set(sloweave.REPRODUCED)
    assert {(key[1], key[2]) for key in SLOWEAVE_FIGURES} <= {(t, p) for t in (10.0, 25.0, 50.0) for p in (*PAPER, ONE)}


def test_reasons_are_found_by_title(mixed):
    nearest = sloweave.tie_with_full(
        sloweave.of(all_of, "mixed", range(1), {PAPER_SET: PAPER}, (50.0,)), "nearest rank"
    )
    assert why_failed(nearest.name) != UNKNOWN
    assert why_failed(claim(*mixed.over(MANY, FINE, 10.0), 1.1).name) != UNKNOWN
    assert why_differs(mixed.over(ONE, PAPER_SET, 10.0)[0]) != UNKNOWN
    assert why_differs("something else") == UNKNOWN


def test_a_published_figure_differs_by_more_than_a_twentieth():
    row = ratio_row("", Ratio(1.11, 1.0, 1.2, 10))
    assert Beside("", 1.0, "x", 5, row).differs()
    assert not Beside("", 1.07, "x", 5, row).differs()


def test_the_99_percent_bound_of_a_noisy_table_covers_99_percent():
    for table in ("3% noise", "10% noise"):
        share, factors = trust.distortion(table, "bound", 0)
        assert (factors / (1 << 20) <= share).mean() == pytest.approx(0.99, abs=0.002)
        assert trust.distortion(table, "expected", 0)[0] == 1
    assert trust.distortion("biased by -10%", "expected", 0)[0] == 0.9
    assert trust.distortion("biased by -10%", "bound", 0)[0] == 1


def test_a_low_table_is_good_by_mean_gap_alone():
    found = {s: trust.by_formula(trust.Case("mixed 85/s, 25 ms", "biased by -10%", s, 0)) for s in trust.SURFACES}
    assert found["expected"]["mean_gap"] > 90 > 20 > found["expected"]["per_token"]
    assert found["bound"]["per_token"] > 90


def test_the_picture_is_the_same_for_the_same_figures(tmp_path):
    shown = [
        trust.Shown("w", table, surface, criterion, (float(at), 80.0))
        for at, table in enumerate(trust.TABLES)
        for surface in trust.SURFACES
        for criterion in trust.CRITERIA
    ]
    assert set(trust.CRITERIA) <= set(CRITERIA)
    for name in ("a.png", "b.png"):
        draw(shown, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert len((tmp_path / "a.png").read_bytes()) > 10_000


@pytest.mark.slow
def test_it_runs_here(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["published.py", "--quick", "--only", "sloweave", "--only", "trust", "--out", str(tmp_path)]
    )
    published.main()
    assert {path.name for path in Path(tmp_path).iterdir()} == {"published.json", "table_trust.png"}
