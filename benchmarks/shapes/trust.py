"""The price of errors in a table: one policy and one device, with tables that are exact, biased, or of a noisy device.

The policy reads each table as expected time and as 99% bound. The bound of a biased table is 1 / 0.9 of it, as
certification on real iterations would find; the bound of log-normal noise is its 0.99 quantile. Fitted tables are
fitted and certified on profiles of the synthetic device. The true time is the median of one more such table, times
the ratios of measured to expected time in its test session.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

from report import Row

import chunkfit
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.scheduler.cost import EXACT, SLOWEAVE, Cost, from_table, noise_factors, residual_factors, scaled
from chunkfit.scheduler.cost.cost_record import Factors
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.serving_metrics import measure
from chunkfit.scheduler.serving_state import Limits
from chunkfit.scheduler.simulate import Conditions, simulate
from chunkfit.scheduler.workloads.registry import workload

from .verdicts import figure

Surface = Literal["expected", "bound"]
Z99 = NormalDist().inv_cdf(0.99)
BIAS = 0.9
POLICY = "sloweave"
# Workload texts, whose target is 25 ms, and batch limits.
WORKLOADS = {"mixed 85/s, 25 ms": ("mixed:rate=85", 128), "long 42/s, 25 ms": ("long:rate=42", 64)}
# The synthetic device is some 8 times slower, holds 7,000 tokens and an output, and 64 decodes take it 20 ms.
FITTED = ("mixed 14/s, 50 ms, synthetic device", "mixed:rate=14,ttft=9s,tpot=50ms,max_prompt=7000", 64)
TABLES = ("exact", "biased by -10%", "3% noise", "10% noise")
FITTED_TABLES = ("exact, no noise", "fitted, certified")
SURFACES: tuple[Surface, ...] = ("expected", "bound")
CRITERIA = {"per_token": "P99 gap", "mean_gap": "mean gap"}


@dataclass(frozen=True, slots=True)
class Shown:
    """Percent of good requests by seed: one table, read one way, under one criterion."""

    workload: str
    table: str
    surface: Surface
    criterion: str
    percent: tuple[float, ...]

    def row(self) -> Row:
        read = {"expected": "expected time", "bound": "99% bound"}[self.surface]
        return figure(f"{self.workload}, {self.table}, {read}: good by {CRITERIA[self.criterion]}", self.percent, "%")


@dataclass(frozen=True, slots=True)
class Case:
    workload: str
    table: str
    surface: Surface
    seed: int


def distortion(table: str, surface: Surface, seed: int) -> tuple[float, Factors]:
    """(what the policy's cost is of the true one, factors of the true one)."""
    if table == "exact":
        return 1.0, EXACT
    if table.startswith("biased"):
        return (BIAS if surface == "expected" else 1.0), EXACT
    sigma = float(table.partition("%")[0]) / 100
    return (1.0 if surface == "expected" else math.exp(Z99 * sigma)), noise_factors(seed, sigma)


def good(spec: str, seed: int, belief: Cost, truth: Cost, limits: Limits, factors: Factors = EXACT) -> dict[str, float]:
    """Percent of good requests by criterion."""
    requests = workload(spec, seed).requests
    run = simulate(requests, policy(POLICY), belief, truth, limits, Conditions(factors))
    measured = {
        criterion: measure(requests, run.results, criterion, run.makespan_ms).groups["all"] for criterion in CRITERIA
    }
    return {criterion: 100 * group.good_share for criterion, group in measured.items()}


def by_formula(case: Case) -> dict[str, float]:
    spec, batch = WORKLOADS[case.workload]
    share, factors = distortion(case.table, case.surface, case.seed)
    cost = SLOWEAVE.cost()
    return good(spec, case.seed, scaled(cost, share), cost, Limits(batch, 1 << 24), factors)


@lru_cache(maxsize=1)
def true_device() -> tuple[Cost, tuple[float, ...]]:
    """Median of a table of its own profile, and the ratios that its test session recorded."""
    profile = synthetic_profile(1000, fit_points=500)
    table = chunkfit.fit(profile, fitter="scene_experts")
    test = profile.select(session="test")
    ratios = test.columns["latency_ms"] / table.read(test.points())[0]
    return from_table(table, "expected"), tuple(ratios.tolist())


def by_fit(seed: int) -> dict[tuple[str, Surface], dict[str, float]]:
    """Good shares under the device's own median without its noise, and under a fitted table's two surfaces with it."""
    _, spec, batch = FITTED
    truth, ratios = true_device()
    table = chunkfit.fit(synthetic_profile(seed, fit_points=500, test_points=300), fitter="scene_experts")
    limits = Limits.within(truth, batch)
    factors = residual_factors(seed, ratios)
    found: dict[tuple[str, Surface], dict[str, float]] = {}
    for surface in SURFACES:
        found[FITTED_TABLES[0], surface] = good(spec, seed, truth, truth, limits)
        found[FITTED_TABLES[1], surface] = good(spec, seed, from_table(table, surface), truth, limits, factors)
    return found


def shown(spread: Callable[..., list], seeds: Sequence[int]) -> Iterator[Shown]:
    cases = [Case(w, t, s, seed) for w in WORKLOADS for t in TABLES for s in SURFACES for seed in seeds]
    found = list(zip(cases, spread(by_formula, cases), strict=True))
    for name in WORKLOADS:
        for table in TABLES:
            for surface in SURFACES:
                mine = [g for c, g in found if (c.workload, c.table, c.surface) == (name, table, surface)]
                for criterion in CRITERIA:
                    yield Shown(name, table, surface, criterion, tuple(each[criterion] for each in mine))
    fitted = spread(by_fit, seeds)
    for table in FITTED_TABLES:
        for surface in SURFACES:
            for criterion in CRITERIA:
                yield Shown(
                    FITTED[0], table, surface, criterion, tuple(each[table, surface][criterion] for each in fitted)
                )
