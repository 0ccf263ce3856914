"""Did the table keep its word at the iterations that a scheduler chose? Every logged iteration against its bound.

A scheduler that takes the largest chunk within its bound picks the very points where the bound is too low, so this
coverage is another than the certified one, and stands beside it.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...files.strict import Count, Share, Strict
from ...tables.batch import SCENES, Scene
from ...tables.cost_table import CostTable

Floats = NDArray[np.float64]
NonNegative = Annotated[float, Field(ge=0)]


class Missed(Strict):
    """Iterations over the bound, of those whose bound is known; low and high: 95%, Clopper-Pearson."""

    rows: Count
    missed: Count
    coverage: Share | None
    low: Share
    high: Share


class SceneError(Strict):
    """|T - E| / T in percent, E the table's expected time."""

    rows: Count
    median_percent: NonNegative
    p90_percent: NonNegative
    p99_percent: NonNegative


class BoundCoverage(Strict):
    """Of one policy over all its iterations. Times are the engine's calls, what the table is about, unless said."""

    closed_loop: Missed = Field(description="against the bound that the policy decided with")
    by_table: Missed = Field(description="against the table's own; another one only while a calibrator is on")
    chosen: Missed = Field(description="iterations with decodes and a chunk, against the policy's bound")
    with_host: Missed = Field(description="from decision to tokens, host's work included, against the policy's bound")
    promised: Share | None = Field(description="certified coverage")
    marginal_miss: Share | None = Field(description="share over the bound in the table's test session")
    outside: Count = Field(description="iterations outside of the table's domain")
    errors: dict[str, SceneError]
    worst_under_ms: float | None = Field(description="largest T - E; null: no iteration")
    worst_under_percent: float | None = Field(description="largest (T - E) / T")
    decision_p50_us: NonNegative | None
    decision_p99_us: NonNegative | None
    decision_many_p50_us: NonNegative | None = Field(description="with at least 128 decodes running")
    host_mean_ms: NonNegative | None = Field(description="of an iteration's time, what is not the engine's call")
    budget_used_p50: NonNegative | None = Field(description="time over slack, of iterations with decodes and slack")
    budget_used_p99: NonNegative | None
    over_budget: Share | None = Field(description="of them, those that took longer than the slack")


def bound_coverage_of(log: NDArray[Any], table: CostTable) -> BoundCoverage:
    """log: LIVE_ITERATION (m,), of one run or of several."""
    engine, bound = log["engine_ms"], log["bound_ms"]
    known = np.isfinite(log["expected_ms"]) & np.isfinite(bound)
    chosen = known & (log["decodes"] > 0) & (log["chunk_tokens"] > 0)
    under = (engine - log["expected_ms"])[known]
    relative = under / engine[known] if known.any() else under
    budgeted = (log["decodes"] > 0) & (log["slack_ms"] > 0)
    used = log["latency_ms"][budgeted] / log["slack_ms"][budgeted]
    many = log["decision_us"][log["decodes"] >= 128]
    certificate, test = table.document.certificate, table.document.test
    covered = test.coverage.coverage if test else None
    return BoundCoverage(
        closed_loop=_missed(engine[known], bound[known]),
        by_table=_missed(engine[known], log["table_bound_ms"][known]),
        chosen=_missed(engine[chosen], bound[chosen]),
        with_host=_missed(log["latency_ms"][known], bound[known]),
        promised=certificate.coverage if certificate else None,
        marginal_miss=None if covered is None else 1 - covered,
        outside=int((~known).sum()),
        errors={
            scene.value: _error(np.abs(relative[rows]))
            for scene in SCENES
            if (rows := _of_scene(log[known], scene)).any()
        },
        worst_under_ms=float(under.max()) if len(under) else None,
        worst_under_percent=float(100 * relative.max()) if len(under) else None,
        decision_p50_us=_quantile(log["decision_us"], 0.5),
        decision_p99_us=_quantile(log["decision_us"], 0.99),
        decision_many_p50_us=_quantile(many, 0.5),
        host_mean_ms=float(np.maximum(log["latency_ms"] - engine, 0).mean()) if len(log) else None,
        budget_used_p50=_quantile(used, 0.5),
        budget_used_p99=_quantile(used, 0.99),
        over_budget=float((used > 1).mean()) if len(used) else None,
    )


def _missed(times_ms: Floats, bound_ms: Floats) -> Missed:
    from scipy.stats import binomtest

    rows, missed = len(times_ms), int((times_ms > bound_ms).sum())
    if not rows:
        return Missed(rows=0, missed=0, coverage=None, low=0.0, high=1.0)
    interval = binomtest(rows - missed, rows).proportion_ci(0.95, method="exact")
    return Missed(
        rows=rows, missed=missed, coverage=1 - missed / rows, low=float(interval.low), high=float(interval.high)
    )


def _error(absolute: Floats) -> SceneError:
    median, p90, p99 = (100 * np.quantile(absolute, (0.5, 0.9, 0.99))).tolist()
    return SceneError(rows=len(absolute), median_percent=median, p90_percent=p90, p99_percent=p99)


def _of_scene(log: NDArray[Any], scene: Scene) -> NDArray[np.bool_]:
    decodes, chunks = log["decodes"] > 0, log["chunk_tokens"] > 0
    rows: NDArray[np.bool_] = {
        Scene.DECODE: ~chunks,
        Scene.PREFILL: ~decodes,
        Scene.MIXED: decodes & chunks,
    }[scene]
    return rows


def _quantile(values: Floats, share: float) -> float | None:
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else None
