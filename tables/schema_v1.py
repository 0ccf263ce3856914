"""Version 1 of the table format, as pydantic models; the shipped JSON Schema is generated from here.

Format history (a reader of any later release still reads every version listed here):
1  first version. Per scene ladder + base, expected and bound, certificates, margin parts, factors.

Numbers are strict: an integer field takes no float, nothing takes NaN or infinity, unknown keys are
refused. Times are in ms and multiples of 2^-14 ms, so that a reader and a writer agree exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from ..files.strict import Count, Sha256, Share, Strict
from .batch import AXES, Scene
from .domain import Domain
from .fingerprint import Fingerprint
from .grid import SCENE_AXES
from .lookup import MAX_TICKS, TICKS_PER_MS
from .verdict import VerdictV1

# Of n, k, c, u: where scenes meet at a node; a context may begin anywhere.
FIRST_KNOTS = (1, None, 1, 0)
FORMAT: Final = "chunkfit.cost-table"
SCHEMA_VERSION: Final = 1

Knots = Annotated[list[int], Field(min_length=1)]
Millis = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)]
Factor = Annotated[float, Field(ge=1)]
Aggregation = Annotated[str, Field(pattern=r"^(iteration|mean:[1-9][0-9]*|unknown)$")]


class AxisV1(Strict):
    """One coordinate of every base grid."""

    knots: Knots = Field(description="strictly increasing coordinates of the grid's nodes")
    between: Literal["linear"] = Field(
        description="how values are read between knots; below the first knot its value holds"
    )


class AxesV1(Strict):
    decodes: AxisV1 = Field(description="n, starts at 1")
    context_tokens: AxisV1 = Field(description="k, mean context of the decodes")
    chunk_tokens: AxisV1 = Field(description="c, sum of the chunks, starts at 1")
    prefix_tokens: AxisV1 = Field(description="u, sum of the chunks' prefixes, starts at 0")


class LadderV1(Strict):
    """The part that depends on n + c alone: weights, matrix products, padding; it carries the steps."""

    batch_tokens: Knots = Field(description="strictly increasing totals n + c; a step is a pair of neighbours")
    between: Literal["linear", "up"] = Field(description="linear, or the value of the next knot")
    expected_ms: Millis = Field(description="one non-decreasing value per knot")
    bound_ms: Millis = Field(description="one non-decreasing value per knot, >= expected_ms")


class BaseV1(Strict):
    """The smooth part on the scene's axes, in C order over decodes, context, prefix, chunk (those it has)."""

    expected_ms: Millis = Field(description="one value per node, non-decreasing along every axis")
    bound_ms: Millis = Field(description="one value per node, non-decreasing along every axis, >= expected_ms")
    measured: list[Annotated[int, Field(ge=0, le=1)]] = Field(
        description="1 where fit rows lie around the node, 0 where the value is the model's"
    )


class SceneV1(Strict):
    ladder: LadderV1
    base: BaseV1


class EdgesV1(Strict):
    """Upper edges of the boxes along each axis; a box holds the integers above the edge before it."""

    decodes: Knots
    context_tokens: Knots
    chunk_tokens: Knots
    prefix_tokens: Knots


class SupportV1(Strict):
    """Where a table was measured. Elsewhere it answers from measured batches with more work, or not at all."""

    edges: EdgesV1
    measured: dict[Scene, list[Annotated[int, Field(ge=0, le=1)]]] = Field(
        description="for each scene 1 or 0 for each of its boxes, in C order over n, k, c, u (those it has)"
    )


class RangeV1(Strict):
    """Of one coordinate over the fit rows whose batches have it."""

    low: Count
    median: Count
    high: Count


class FitterV1(Strict):
    name: str = Field(description="estimator")
    options: dict[str, Any] = Field(description="what it was run with")
    coefficients: dict[str, dict[str, float]] = Field(description="per scene expert, by feature; ms per unit")


class MarginPartV1(Strict):
    """One source of the distance between expected and bound."""

    name: str = Field(description="noise, session_drift, unequal_contexts, several_chunks, interpolation")
    scene: Scene | None = Field(description="null: the same for all scenes")
    factor: float | None = Field(description="multiplies the scale (noise) or the bound; null: not measured")
    detail: str = Field(description="how it was obtained")


class FactorsV1(Strict):
    """Measured factors; null: not measured, and taken as 1. The first two are of batches with the same totals.

    The bounds of the scenes are of equal contexts and at most one chunk. A reader raises them for other batches.
    """

    unequal_contexts: Factor | None = Field(
        description="raises the bound of decodes with unequal contexts, read at their mean, to no more than the "
        "bound with every context the longest; multiples of 1/4096 are exact, others are rounded up to one"
    )
    several_chunks: Factor | None = Field(
        description="raises the bound of several chunks, read as one; rounded as unequal_contexts"
    )
    session_drift: Factor | None = Field(description="between fit and calibrate session, already inside bound_ms")


class CountsV1(Strict):
    """Rows with T <= U among `rows`, with a two-sided 95% Clopper-Pearson interval."""

    points: Count
    rows: Count
    covered: Count
    coverage: Share | None = Field(description="covered / rows; null without rows")
    low: Share | None
    high: Share | None


class CertificateV1(Strict):
    """What is promised, and the calibration session it rests on."""

    coverage: Share = Field(description="certified: P(T <= U) is at least this ...")
    confidence: Share = Field(description="... with this confidence over the drawing of the session")
    law: str = Field(description="the measure of batches that the coverage refers to")
    points: Count
    rows: Count
    exceedances: Count = Field(description="calibration rows above the shipped bound")
    allowed: Count = Field(description="exceedances that the order statistic allows")
    scenes: dict[Scene, CountsV1] = Field(description="calibration session by scene, not certified singly")


class PriceV1(Strict):
    """What another coverage would cost, from the same calibration rows."""

    coverage: Share
    mean_bound_ratio: float = Field(description="mean U / T over the calibration rows")


class ErrorsV1(Strict):
    """Errors on the test session, in percent of the measured time unless the name says ms."""

    rows: Count
    mape_percent: float
    median_percent: float
    p90_percent: float
    p99_percent: float
    worst_under_percent: float = Field(description="largest (T - E) / T")
    worst_under_ms: float = Field(description="largest T - E")
    mean_bound_ratio: float = Field(description="mean U / T")
    pinball_50: float = Field(description="of relative error at 0.5, percent")
    pinball_99: float = Field(description="of the bound's relative error at 0.99, percent")


class TestV1(Strict):
    __test__ = False  # a name pytest would otherwise collect

    coverage: CountsV1
    block_low: Share | None = Field(description="2.5% point of a bootstrap over points")
    block_high: Share | None
    unflagged: CountsV1 = Field(description="without rows measured under a throttle")
    scenes: dict[Scene, CountsV1]
    errors: dict[str, ErrorsV1] = Field(description="by scene, and `all`")


class GapV1(Strict):
    """What monotonicity costs: the closed bound over the bound before closure, less one."""

    mean_percent: float = Field(description="over the test rows")
    p99_percent: float
    max_node_percent: float = Field(description="over the grid's measured nodes")
    where: dict[str, int] | None = Field(description="the node of the largest gap")
    inversions: Share | None = Field(description="share of neighbouring measured nodes that fall before closure")


class TableV1(Strict):
    """A cost table: expected time and bound of an iteration by (n, k, c, u), and the evidence."""

    format: Literal["chunkfit.cost-table"]
    schema_version: Literal[1]
    content_sha256: Sha256 = Field(description="of the canonical JSON of everything else")
    created_by: str
    fingerprint: Fingerprint
    aggregation: Aggregation = Field(description="what a profile row is: one iteration, or a mean")
    profile_sha256: Sha256 | None = Field(description="of the profile file the table was fitted on")
    domain: Domain
    axes: AxesV1
    scenes: Annotated[dict[Scene, SceneV1], Field(min_length=1)]
    support: SupportV1 | None = Field(description="null: every batch of the domain was measured")
    observed: dict[str, RangeV1] = Field(description="by axis, of the fit rows; empty where the rows are not known")
    fitter: FitterV1
    margin: list[MarginPartV1]
    factors: FactorsV1
    verdict: VerdictV1 | None = Field(description="how far the table may be relied on; null: nobody judged it")
    certificate: CertificateV1 | None = Field(description="null: nothing was certified")
    price: list[PriceV1] = Field(description="the coverages that the calibration rows can certify, and their bounds")
    test: TestV1 | None
    gap: GapV1 | None

    @model_validator(mode="after")
    def _whole(self) -> TableV1:
        """Raises ValueError with the JSON path of a knot out of order, a wrong length or a time that is no tick."""
        for name, first in zip(AXES, FIRST_KNOTS, strict=True):
            at, knots = f"$.axes.{name}.knots", getattr(self.axes, name).knots
            last = getattr(self.domain, f"max_{name}")
            _require_increasing(knots, at)
            if first is not None and knots[0] != first:
                raise ValueError(f"{at}[0] is {knots[0]}; expected {first}, so that scenes meet at it")
            if knots[-1] != last:
                raise ValueError(f"{at} ends at {knots[-1]}; expected the domain's limit {last}")
        for scene, stored in self.scenes.items():
            at = f"$.scenes.{scene.value}"
            _require_increasing(stored.ladder.batch_tokens, f"{at}.ladder.batch_tokens")
            nodes = math.prod(len(getattr(self.axes, name).knots) for name in SCENE_AXES[scene])
            for key in ("expected_ms", "bound_ms"):
                _require_ticks(getattr(stored.ladder, key), len(stored.ladder.batch_tokens), f"{at}.ladder.{key}")
                _require_ticks(getattr(stored.base, key), nodes, f"{at}.base.{key}")
            _require_length(stored.base.measured, nodes, f"{at}.base.measured")
        if self.support is not None:
            _require_boxes(self.support, self.domain, self.scenes)
        return self


def _require_boxes(support: SupportV1, domain: Domain, scenes: Iterable[Scene]) -> None:
    """Raises ValueError for edges out of order or short of the domain, or boxes of other scenes or another number."""
    for name in AXES:
        at, edges = f"$.support.edges.{name}", getattr(support.edges, name)
        _require_increasing(edges, at)
        if edges[-1] != getattr(domain, f"max_{name}"):
            raise ValueError(f"{at} ends at {edges[-1]}; expected the domain's limit {getattr(domain, f'max_{name}')}")
    if set(support.measured) != set(scenes):
        raise ValueError("$.support.measured has other scenes than $.scenes; expected the same")
    for scene, flags in support.measured.items():
        boxes = math.prod(len(getattr(support.edges, name)) for name in SCENE_AXES[scene])
        _require_length(flags, boxes, f"$.support.measured.{scene.value}")


def _require_increasing(values: list[int], at: str) -> None:
    for i, (low, high) in enumerate(pairwise(values)):
        if high <= low:
            raise ValueError(f"{at}[{i + 1}]: {high} after {low}; expected strictly increasing values")


def _require_ticks(values: list[float], length: int, at: str) -> None:
    _require_length(values, length, at)
    for i, value in enumerate(values):
        if value * TICKS_PER_MS >= MAX_TICKS or not (value * TICKS_PER_MS).is_integer():
            raise ValueError(
                f"{at}[{i}] is {value!r}; expected a multiple of 1/{TICKS_PER_MS} ms below "
                f"{MAX_TICKS // TICKS_PER_MS:,} ms: round bounds up, expected times to the nearest"
            )


def _require_length(values: list[float] | list[int], length: int, at: str) -> None:
    if len(values) != length:
        raise ValueError(f"{at} has {len(values)} values; expected {length}, the product of its axes")
