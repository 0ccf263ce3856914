"""The points of a sweep, drawn before anything is measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from ..files.errors import UsageError
from ..files.strict import Frozen
from ..tables.batch import Batch, Scene
from ..tables.domain import Domain
from ..tables.grid import Points
from .columns import PAIRED, Role, batch_of, layout_of
from .pairs import several_chunks, unequal_contexts
from .rounds import Rounds, start_points
from .sampling import AXES, Point, axis_range, corners, draw, inside, scene_of, step_pairs, step_sides
from .traffic import Traffic

Session = Literal["fit", "calibrate", "test"]
SESSIONS: tuple[Session, ...] = ("fit", "calibrate", "test")
# What a sweep keeps time for before all else: so many calibration points certify 0.99 at 0.95
# (fitters.margin.points_needed), and without some points to fit and to test there is no table.
CERTIFICATE_POINTS = 299
LEAST_POINTS: dict[Session, int] = {"fit": 60, "calibrate": CERTIFICATE_POINTS, "test": 60}
# States of each scene at which both sides of a step are fitted, fewer where steps are so many that they would take
# more than this share of the fit points.
STEP_STATES = 6
STEP_FIT_SHARE = 0.25
SENTINEL_REPEATS = 3
PAIR_REPEATS = 5

Count = Annotated[int, Field(ge=0)]


class PlanPoint(Frozen):
    """One point to measure. An anchor is a calibrate point that the fit session measures too, so that
    the drift between sessions shows; nothing is fitted to it. Points with the roles unequal and chunks are
    pairs of equal totals, one of which has a layout; nothing is fitted to them either."""

    point_id: Count
    role: Role
    scene: Scene
    n: Count
    k: Count
    c: Count
    u: Count
    layout: Annotated[str, Field(description="empty: equal contexts and at most one chunk; else see columns.py")] = ""
    repeats: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _scene_fits(self) -> PlanPoint:
        if self.n == 0 and self.c == 0:
            raise ValueError("a point without decodes and chunk tokens")
        if self.scene is not scene_of(self.point):
            raise ValueError(f"scene {self.scene.value} for n {self.n}, c {self.c}")
        batch_of(self.layout, *self.point)
        return self

    @classmethod
    def at(cls, point: Point, point_id: int, role: Role, repeats: int, layout: str = "") -> PlanPoint:
        """The plan's point of (n, k, c, u). Raises ValidationError for one that cannot be."""
        n, k, c, u = point
        return cls(
            point_id=point_id, role=role, scene=scene_of(point), n=n, k=k, c=c, u=u, layout=layout, repeats=repeats
        )

    @property
    def point(self) -> Point:
        """(n, k, c, u)"""
        return self.n, self.k, self.c, self.u

    @property
    def iterations(self) -> int:
        """After the warm-up: each repeat, and of a pair an untimed one before it (timing.measure_in_turn)."""
        return self.repeats * (2 if self.role in PAIRED else 1)

    def batch(self) -> Batch:
        """What is run."""
        return batch_of(self.layout, *self.point)

    def twin_of(self, other: PlanPoint) -> bool:
        """Whether both are of one pair: the same totals in the same role, laid out differently."""
        return (self.role, self.point) == (other.role, other.point) and self.layout != other.layout


class SweepPlan(Frozen):
    """Points of the three sessions in the order they are measured."""

    plan_version: Literal[1] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    domain: Domain
    step_totals: Annotated[tuple[int, ...], Field(description="first n + c past each step, ascending")]
    sentinel: PlanPoint
    sentinel_every: Annotated[int, Field(ge=1)] = 20
    warmups: Annotated[int, Field(ge=0, description="untimed iterations before each point, at least")] = 2
    warmup_ms: Annotated[float, Field(ge=0, description="time of the untimed iterations, at least")] = 12.0
    fit: tuple[PlanPoint, ...]
    calibrate: tuple[PlanPoint, ...]
    test: tuple[PlanPoint, ...]
    clipped_fraction: Annotated[
        float, Field(ge=0, le=1, description="share of the law's draws that the domain (capacity) refused")
    ]
    rounds: Annotated[Rounds | None, Field(description="fit points chosen while it runs, after `fit`")] = None
    traffic: Traffic | None = None

    def points(self, session: Session) -> tuple[PlanPoint, ...]:
        """The points of one session in measuring order."""
        return {"fit": self.fit, "calibrate": self.calibrate, "test": self.test}[session]

    def planned(self, session: Session) -> int:
        """How many points a session may have, those included that are chosen while it runs."""
        return len(self.points(session)) + (self.rounds.points if self.rounds and session == "fit" else 0)

    def sha256(self) -> str:
        """Of the canonical JSON (sorted keys, no spaces) of what is not None: plans of before rounds keep theirs."""
        text = json.dumps(self.model_dump(mode="json", exclude_none=True), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def sentinel_point(domain: Domain) -> Point:
    """A mixed batch in the middle of the domain."""
    middle = [round((low * high) ** 0.5) for low, high in (axis_range(domain, a) for a in range(3))]
    n, k, c = middle
    while not inside(domain, np.asarray([[n, k, c, 0]], dtype=np.int64))[0]:
        if n == k == c == 1:
            raise UsageError(
                f"domain: not even one decode with one chunk token fits {domain.kv_tokens} KV tokens and "
                f"{domain.max_batch_tokens} batch tokens; expected room for 2 of each"
            )
        n, k, c = max(1, n // 2), max(1, k // 2), max(1, c // 2)
    return n, k, c, 0


def _plan_points(points: Points | Sequence[Point], first_id: int, repeats: int) -> list[PlanPoint]:
    rows = np.asarray(points, dtype=np.int64).reshape(-1, 4).tolist()
    return [PlanPoint.at((n, k, c, u), first_id + i, "point", repeats) for i, (n, k, c, u) in enumerate(rows)]


def _anchors(calibrate: Sequence[PlanPoint], anchors: int, repeats: int) -> list[PlanPoint]:
    """The first `anchors` calibrate points of each scene in turn, to be measured in the fit session too."""
    by_scene = [[point for point in calibrate if point.scene is scene] for scene in AXES]
    turns = [point for rank in range(len(calibrate)) for scene in by_scene for point in scene[rank : rank + 1]]
    return [point.model_copy(update={"role": "anchor", "repeats": repeats}) for point in turns[:anchors]]


def _pairs(domain: Domain, count: int, seed: np.random.SeedSequence, first_id: int) -> list[tuple[PlanPoint, ...]]:
    """Pairs of neighbours in the session, which of the two goes first at random."""
    unequal_seed, chunk_seed, order_seed = seed.spawn(3)
    rng = np.random.default_rng(order_seed)
    drawn: list[tuple[Role, Batch]] = [
        *(("unequal", batch) for batch in unequal_contexts(domain, count, unequal_seed)),
        *(("chunks", batch) for batch in several_chunks(domain, count, chunk_seed)),
    ]
    pairs = []
    for index, (role, batch) in enumerate(drawn):
        layouts = ["", layout_of(batch)]
        rng.shuffle(layouts)
        pairs.append(
            tuple(
                PlanPoint.at(batch.point(), first_id + 2 * index + place, role, PAIR_REPEATS, layout)
                for place, layout in enumerate(layouts)
            )
        )
    return pairs


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How much a sweep measures.

    fit_points, calibrate_points, test_points: of each session. fit_repeats: timed iterations of a fit point. anchors:
    calibrate points that the fit session measures too. pairs: pairs of each kind, fewer where the domain has no room.
    tolerance: None draws all fit points beforehand. A number draws a third of them (`rounds.start_points`) and leaves
    the others to be chosen while the session runs, until the out-of-fold relative error of every cell is under it.
    traffic: shares of the scenes in calibrate and test, and weights of the cells when points are chosen.
    Raises UsageError for counts below 1.
    """

    fit_points: int = 1000
    calibrate_points: int = 1000
    test_points: int = 1000
    fit_repeats: int = 3
    anchors: int = 48
    pairs: int = 32
    warmups: int = 2
    warmup_ms: float = 12.0
    sentinel_every: int = 20
    tolerance: float | None = None
    traffic: Traffic | None = None

    def __post_init__(self) -> None:
        for name in ("fit_points", "calibrate_points", "test_points", "fit_repeats"):
            if getattr(self, name) < 1:
                raise UsageError(f"PlanOptions: {name} is {getattr(self, name)}; expected at least 1")

    @property
    def drawn_fit_points(self) -> int:
        """Fit points that are drawn beforehand."""
        return self.fit_points if self.tolerance is None else start_points(self.fit_points)


def draw_plan(domain: Domain, step_totals: Sequence[int], seed: int, options: PlanOptions | None = None) -> SweepPlan:
    """The sweep of one seed.

    calibrate and test come from the sampling design with one repeat each. The fit points hold the corners of the
    domain and both sides of steps (together at most half of them, corners first, steps at most a quarter), the rest is
    the design; no fit point is a calibrate or test point. Order is random, so any prefix is a fair sample. Anchors and
    pairs come early in the fit session.
    Raises UsageError for a seed that cannot be, or a domain with too few distinct points.
    """
    options = options or PlanOptions()
    if not 0 <= seed < 2**63:
        raise UsageError(f"draw_plan: seed is {seed}; expected 0 to 2^63 - 1")
    steps = tuple(sorted(set(step_totals)))
    fit_seed, calibrate_seed, test_seed, step_seed, order_seed, pair_seed = np.random.SeedSequence(seed).spawn(6)
    scenes = options.traffic.scenes if options.traffic else None
    calibrate_draw = draw(domain, options.calibrate_points, steps, calibrate_seed, scenes=scenes)
    test_draw = draw(domain, options.test_points, steps, test_seed, scenes=scenes)
    held_out = {(n, k, c, u) for n, k, c, u in [*calibrate_draw.points.tolist(), *test_draw.points.tolist()]}
    rng = np.random.default_rng(order_seed)
    special = _corners_and_steps(domain, steps, options, step_seed, rng)
    special = [point for point in special if point not in held_out][: options.drawn_fit_points // 2]
    rest = options.drawn_fit_points - len(special)
    fit_draw = draw(domain, rest, steps, fit_seed, exclude=held_out | set(special))

    first_test_id = options.fit_points + options.calibrate_points
    sentinel_id = first_test_id + options.test_points
    fit = _plan_points([*special, *map(tuple, fit_draw.points.tolist())], 0, options.fit_repeats)
    calibrate = _plan_points(calibrate_draw.points, options.fit_points, 1)
    test = _plan_points(test_draw.points, first_test_id, 1)
    pairs = _pairs(domain, options.pairs, pair_seed, sentinel_id + 1)
    draws = (calibrate_draw, test_draw, fit_draw)
    return SweepPlan(
        seed=seed,
        domain=domain,
        step_totals=steps,
        sentinel=PlanPoint.at(sentinel_point(domain), sentinel_id, "sentinel", SENTINEL_REPEATS),
        sentinel_every=options.sentinel_every,
        warmups=options.warmups,
        warmup_ms=options.warmup_ms,
        fit=_fit_order(fit, _anchors(calibrate, options.anchors, options.fit_repeats), pairs, rng),
        calibrate=tuple(calibrate),
        test=tuple(test),
        clipped_fraction=sum(d.rejected for d in draws) / max(1, sum(d.drawn for d in draws)),
        rounds=_rounds(options, sentinel_id + 1 + 2 * len(pairs)),
        traffic=options.traffic,
    )


def _corners_and_steps(
    domain: Domain, steps: Sequence[int], options: PlanOptions, seed: np.random.SeedSequence, rng: np.random.Generator
) -> list[Point]:
    """The corners of the domain, then both sides of steps at states drawn at random; no point twice."""
    room = int(options.fit_points * STEP_FIT_SHARE)
    sides = sum(len(step_sides(domain, scene, steps)) for scene in AXES)
    states = min(STEP_STATES, max(1, room // max(1, sides)))
    at_steps = step_pairs(domain, steps, states, seed)
    rng.shuffle(at_steps)
    return list(dict.fromkeys([*corners(domain), *at_steps[:room]]))


def _fit_order(
    points: list[PlanPoint], anchors: list[PlanPoint], pairs: list[tuple[PlanPoint, ...]], rng: np.random.Generator
) -> tuple[PlanPoint, ...]:
    """The fit session at random, anchors and pairs in its first third: a session cut short by its budget has them."""
    rng.shuffle(points)
    third = len(points) // 3
    early = [*((point,) for point in (*points[:third], *anchors)), *pairs]
    rng.shuffle(early)
    return (*(point for group in early for point in group), *points[third:])


def _rounds(options: PlanOptions, first_id: int) -> Rounds | None:
    left = options.fit_points - options.drawn_fit_points
    if options.tolerance is None or not left:
        return None
    return Rounds(first_id=first_id, points=left, repeats=options.fit_repeats, tolerance=options.tolerance)
