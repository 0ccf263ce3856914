"""What of a session's files was to hold."""

import json

import gpu_gates
import gpu_summary
import pytest
from support.fitting import fit

from chunkfit.profiler.synthetic_profile import synthetic_profile


def gate(part):
    (found,) = (gate for gate in gpu_gates.GATES if part in gate.title)
    return found


def rows(path, **values):
    listed = [
        {"name": name, "value": value, "unit": "", "n": 1, "lo": None, "hi": None} for name, value in values.items()
    ]
    path.write_text(json.dumps({"schema_version": 1, "rows": listed}))


def test_nothing_is_measured_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    assert {gate.judged(tmp_path)[0] for gate in gpu_gates.GATES} == {"not measured"}
    monkeypatch.setattr("sys.argv", ["gpu_summary.py", str(tmp_path)])
    assert gpu_summary.main() == 1
    assert "no iteration_floors.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (
            {"decode 4 x 1024, eager: time / floor": 1.2, "decode 64 x 1024, eager: time / floor": 1.25},
            ("pass", "1.25x"),
        ),
        ({"decode 4 x 1024, eager: time / floor": 1.2, "decode 64 x 1024, eager: time / floor": 1.3}, ("FAIL", "1.3x")),
        # With graphs is what is run; eager stands beside it.
        (
            {"decode 4 x 1024, eager: time / floor": 9, "decode 4 x 1024, with graphs: time / floor": 1.1},
            ("pass", "1.1x"),
        ),
        ({"decode 4 x 256, eager: time / floor": 9}, ("not measured", "iteration_floors.json has no such row")),
    ],
)
def test_decode_iterations(tmp_path, values, verdict):
    rows(tmp_path / "iteration_floors.json", **values)
    assert gate("decode iterations").judged(tmp_path) == (*verdict, "<= 1.25x")


def test_chunks(tmp_path):
    shares = {"chunk 2048 after 0, eager": 0.7, "chunk 8192 after 2048, eager": 0.61, "chunk 512 after 0, eager": 0.2}
    values = {f"{name}: share of the matrix rate": value for name, value in shares.items()}
    rows(tmp_path / "iteration_floors.json", **values)
    assert gate("chunks of 2048").judged(tmp_path) == ("pass", "0.61", ">= 0.6")


def test_attention_against_sdpa(tmp_path):
    path = tmp_path / "attention_vs_sdpa.json"
    refused = "chunk 512 after 8192: cudnn"
    ratios = {"chunk 512 after 0: flash / ours": 0.95, "chunk 512 after 8192: flash / ours": 0.89}
    ratios |= {"chunk 512 after 0: cudnn / ours": 0.6, "chunk 512 after 8192: cudnn with a dense mask / ours": 0.1}
    rows(path, **ratios, **{refused: None, "decode 4 x 1024: flash / ours": 0.5})
    assert gate("SDPA flash").judged(tmp_path) == ("FAIL", "0.89x", ">= 0.9x")
    assert gate("SDPA cuDNN").judged(tmp_path) == ("pass", "0.6x", ">= 0.55x")
    path.write_text("{")
    assert "cannot be read" in gate("SDPA flash").judged(tmp_path)[1]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("....\n4 passed, 2 skipped in 3.10s\n", "pass"),
        ("...F\n== 1 failed, 3 passed in 61.10s (0:01:01) ==\n", "FAIL"),
        ("E\n1 error in 0.10s\n", "FAIL"),
        ("no tests ran in 0.01s\n", "not measured"),
        ("..\n!!! KeyboardInterrupt !!!\n2 passed in 140.00s (0:02:20)\n", "not measured"),
        ("....", "not measured"),
    ],
)
def test_the_tests_on_the_device(tmp_path, text, verdict):
    (tmp_path / "check-tests.txt").write_text(text)
    assert gate("kernel tests").judged(tmp_path)[0] == verdict


def test_a_profile_and_its_table(tmp_path):
    profile = synthetic_profile(0, fit_points=300, calibrate_points=400, test_points=400)
    sha = profile.save(tmp_path / "profile.parquet")
    table = fit(profile, profile_sha256=sha)
    table.save(tmp_path / "table.json")
    errors = table.document.test.errors["all"]
    assert gate("median error").figure(tmp_path / "table.json") == errors.median_percent
    assert gate("U/T").figure(tmp_path / "table.json") == errors.mean_bound_ratio
    assert gate("certified").figure(tmp_path / "table.json") == 0.99
    seconds = sum(meta.seconds for meta in profile.meta.sessions.values())
    assert gate("wall of the three").figure(tmp_path / "profile.parquet") == seconds
    # A formula has no device events.
    assert gate("event time").judged(tmp_path)[0] == "not measured"


def test_a_live_session(tmp_path, monkeypatch, capsys):
    """Figures of a study that the stage would leave."""
    study = live_study()
    (tmp_path / "live-25.json").write_text(study.model_dump_json())
    figures = {found.title.partition(": ")[2]: found.judged(tmp_path) for found in gpu_gates.live_gates(25)}
    loops = [coverage.closed_loop for coverage in study.bound_coverage.values()]
    missed = 100 * sum(loop.missed for loop in loops) / sum(loop.rows for loop in loops)
    assert figures["iterations over the bound"][1] == f"{missed:.4g}%"
    assert (
        figures["goodput of sloweave over the best static policy's"][1]
        == f"{gpu_gates.over_static(tmp_path / 'live-25.json'):.4g}x"
    )
    assert figures["simulated against live goodput of sloweave"][0] == "pass"
    assert figures["decision with 128 decodes"][0] == "not measured"  # so few were never running
    monkeypatch.setattr("sys.argv", ["gpu_summary.py", str(tmp_path)])
    gpu_summary.main()
    shown = capsys.readouterr().out
    assert "live-25: closed-loop coverage of sloweave" in shown
    assert "live-25: fixed-128" in shown


def live_study():
    from support.live_runs import synthetic_table, virtual

    from chunkfit.scheduler.live.live_session import SessionPlan, run_live_session
    from chunkfit.scheduler.live.open import limits_of
    from chunkfit.scheduler.live.runner import LiveRunner
    from chunkfit.scheduler.live.slo_targets import maker, targets_for
    from chunkfit.scheduler.policies import policy

    table = synthetic_table()
    bench = LiveRunner(table, virtual(), limits_of(table, 32, None), "per_token")
    targets = targets_for(table, bench.limits, "mixed:prompt_scale=0.5x", "1.1s", "25ms")
    policies = [policy("sloweave"), policy("fixed-128")]
    plan = SessionPlan(policies, policies, maker("mixed:prompt_scale=0.5x", targets), targets, 5.0, 2.0, 1, 1.0, True)
    return run_live_session(bench, plan)[0]
