"""The whole fit on the synthetic device, where the truth is a closed form: errors, coverage, steps.

Batches are drawn by the calibration law with seeds that no profile uses. True coverage is averaged over the
session effect. Five seeds here, all hundred in the slow test.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from support.fitting import fit

from chunkfit import CostTable
from chunkfit.fitters.estimators.registry import ESTIMATORS
from chunkfit.fitters.predictor import TablePredictor
from chunkfit.profiler.columns import PAIRED
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.profile import Profile
from chunkfit.profiler.sampling import draw
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.grid import scene_of

STEP = 129
FRESH = 10_000  # seeds of batches to ask about: never one of a profile


@dataclass(frozen=True)
class Score:
    median_error: float
    p99_error: float
    coverage: float
    bound_ratio: float  # mean U / T over that of the ideal bound, the true 0.99 quantile
    step_errors: np.ndarray  # per total 16 to each side of the step: median over states of E / E_true - 1
    step_points: np.ndarray  # the same point by point

    def __str__(self) -> str:
        return (
            f"median {100 * self.median_error:.2f}% P99 {100 * self.p99_error:.2f}% coverage {self.coverage:.4f} "
            f"U/ideal {self.bound_ratio:.3f} step {100 * np.abs(self.step_errors).max():.2f}%"
        )


def batches(profile: Profile, seed: int) -> np.ndarray:
    return draw(profile.meta.domain, 1500, profile.meta.step_totals, np.random.SeedSequence(FRESH + seed)).points


def around_the_step(profile: Profile, seed: int) -> np.ndarray:
    """40 states (n, k, u) at each of the 32 totals from STEP - 16 to STEP + 15; shape (32 * 40, 4)."""
    rng = np.random.default_rng(FRESH + seed)
    totals = np.repeat(np.arange(STEP - 16, STEP + 16), 40)
    n = np.exp(rng.uniform(0, np.log(100), len(totals))).astype(int)
    k = np.exp(rng.uniform(np.log(16), np.log(2000), len(totals))).astype(int)
    u = np.exp(rng.uniform(np.log(16), np.log(16000), len(totals))).astype(int)
    return np.column_stack([n, k, totals - n, u])


def score(table: CostTable, profile: Profile, seed: int) -> Score:
    points = batches(profile, seed)
    expected, bound = table.read(points)
    median = truth.median_ms(points)
    error = np.abs(expected / median - 1)
    near = around_the_step(profile, seed)
    step = table.read(near)[0] / truth.median_ms(near) - 1
    return Score(
        float(np.median(error)),
        float(np.quantile(error, 0.99)),
        float(truth.coverage(points, bound).mean()),
        float((bound / median).mean() / (truth.quantile_ms(points, 0.99) / median).mean()),
        np.median(step.reshape(32, 40), axis=1),
        step,
    )


def check_all(scores: list[Score], covered: int) -> None:
    listed = "\n".join(map(str, scores))
    assert max(s.median_error for s in scores) < 0.01, listed
    assert max(s.p99_error for s in scores) < 0.05, listed
    assert sum(s.coverage >= 0.99 for s in scores) >= covered, listed
    # The order statistic of one session is itself random: with 4 exceedances of 1,000 allowed in a tail of
    # 1 + Exp(0.08) it lies 0.04 around its mean of 1.08, so some sessions pass 1.15 whatever the fit.
    assert np.mean([s.bound_ratio for s in scores]) <= 1.10, listed
    assert np.mean([s.bound_ratio <= 1.15 for s in scores]) >= 0.8, listed
    assert max(np.abs(s.step_errors).max() for s in scores) <= 0.02, listed


@pytest.fixture(scope="module")
def five() -> list[tuple[Profile, CostTable, Score]]:
    made = []
    for seed in range(5):
        profile = synthetic_profile(seed)
        table = fit(profile)
        made.append((profile, table, score(table, profile, seed)))
    return made


def test_the_profile_is_of_the_size_that_was_promised(five):
    profile = five[0][0]
    rows = [
        int(((profile.columns["session"] == s) & (profile.columns["role"] == "point")).sum())
        for s in ("fit", "calibrate", "test")
    ]
    assert rows == [3000, 1000, 1000]


def test_error_coverage_and_step_on_five_seeds(five):
    scores = [s for _, _, s in five]
    check_all(scores, covered=5)


def test_the_step_is_in_the_table(five):
    """8% more from one total to the next, where a smooth fit would spread it over many."""
    for _, table, _ in five:
        low, high = table.read(np.array([[16, 1000, STEP - 17, 256], [16, 1000, STEP - 16, 256]]))[0]
        points = np.array([[16, 1000, STEP - 17, 256], [16, 1000, STEP - 16, 256]])
        rise = truth.base_ms(points)[1] - truth.base_ms(points)[0]
        assert high - low == pytest.approx(rise, rel=0.35)


def test_measured_test_coverage_agrees_with_the_closed_form(five):
    for _, table, s in five:
        test = table.document.test
        assert test is not None
        assert test.coverage.low <= s.coverage + 0.005
        assert test.coverage.high >= s.coverage - 0.005


@pytest.mark.parametrize(("column", "needs"), [("context_tokens", "decodes"), ("prefix_tokens", "chunk_tokens")])
def test_the_same_fit_with_an_axis_held_fails(five, column, needs):
    """What k and u are measured for: with one of them at its median the expected time or coverage is wrong."""
    whole, _, good = five[0]
    # Pairs hold their contexts and prefixes in the layout too.
    single = ~np.isin(whole.columns["role"], PAIRED)
    profile = Profile(whole.meta, {name: values[single] for name, values in whole.columns.items()})
    has = profile.columns[needs] > 0
    held = np.where(has, int(np.median(profile.columns[column][has])), 0)
    table = fit(Profile(profile.meta, {**profile.columns, column: held}))
    points = batches(profile, 0)
    points = points[scene_of(points) != ("prefill" if column == "context_tokens" else "decode")]
    asked = points.copy()
    asked[:, 1 if column == "context_tokens" else 3] = held[has][0]
    expected, bound = table.read(asked)
    error = float(np.median(np.abs(expected / truth.median_ms(points) - 1)))
    coverage = float(truth.coverage(points, bound).mean())
    assert error > 0.01 or coverage < 0.99, (error, coverage)
    assert error > 1.5 * good.median_error


@pytest.mark.slow
def test_a_hundred_seeds():
    scores = []
    for seed in range(100):
        profile = synthetic_profile(seed)
        scores.append(score(fit(profile), profile, seed))
    print("\n".join(f"seed {i}: {s}" for i, s in enumerate(scores)))
    check_all(scores, covered=93)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "roofline"])
def test_the_promise_holds_whatever_the_fitter(name):
    """A poor estimator pays with a wide bound, never with coverage."""
    scores = []
    for seed in range(3):
        profile = synthetic_profile(seed)
        scores.append(score(fit(profile, fitter=name), profile, seed))
    print("\n".join(f"{name}, seed {i}: {s}" for i, s in enumerate(scores)))
    assert min(s.coverage for s in scores) >= 0.988
    assert np.median([s.coverage for s in scores]) >= 0.99


@pytest.mark.slow
def test_auto_meets_what_is_asked_of_the_best():
    scores = []
    for seed in range(3):
        profile = synthetic_profile(seed)
        scores.append(score(fit(profile, fitter="auto"), profile, seed))
    check_all(scores, covered=3)


@pytest.mark.slow
def test_chosen_points_are_worth_no_less_than_drawn_ones():
    """300 points, two thirds of them chosen in rounds, against 300 drawn beforehand.

    Thirty seeds: over ten the ratio of the median errors has a standard error of 2 to 4% (0.94 to 1.05 over four tens
    of seeds), over forty it was 0.994 +- 0.015. What rounds save is the points of a profile that is good enough early.
    """
    predictor = TablePredictor(SYNTHETIC_DOMAIN, (129,))
    drawn, chosen = [], []
    for seed in range(30):
        for made, tolerance in ((drawn, None), (chosen, 0.0)):
            profile = synthetic_profile(seed, fit_points=300, tolerance=tolerance, predictor=predictor)
            assert profile.select("fit").columns["point_id"].size == 900
            made.append(score(fit(profile), profile, seed))
    listed = "\n".join(f"drawn {a}\nchosen {b}" for a, b in zip(drawn, chosen, strict=True))
    print(listed)
    for measure, room in (("median_error", 1.03), ("p99_error", 1.03), ("bound_ratio", 1.005)):
        means = [float(np.mean([getattr(s, measure) for s in scores])) for scores in (drawn, chosen)]
        assert means[1] <= room * means[0], f"{measure}\n{listed}"
    assert sum(s.coverage >= 0.99 for s in chosen) >= 27, listed
