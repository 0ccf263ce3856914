"""What a sweep will measure, drawn before anything is measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
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


def _plan_points(
    points: Points | Sequence[Point], first_id: int, repeats: int, role: Literal["point", "anchor"] = "point"
) -> list[PlanPoint]:
    rows = np.asarray(points, dtype=np.int64).reshape(-1, 4).tolist()
    return [
        PlanPoint(
            point_id=first_id + index,
            role=role,
            scene=scene_of((n, k, c, u)),
            n=n,
            k=k,
            c=c,
            u=u,
            repeats=repeats,
        )
        for index, (n, k, c, u) in enumerate(rows)
    ]


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
        n, k, c, u = batch.point()
        layouts = ["", layout_of(batch)]
        rng.shuffle(layouts)
        pairs.append(
            tuple(
                PlanPoint(
                    point_id=first_id + 2 * index + place,
                    role=role,
                    scene=batch.scene,
                    n=n,
                    k=k,
                    c=c,
                    u=u,
                    layout=layout,
                    repeats=PAIR_REPEATS,
                )
                for place, layout in enumerate(layouts)
            )
        )
    return pairs


def draw_plan(
    domain: Domain,
    step_totals: Sequence[int],
    seed: int,
    *,
    fit_points: int = 1000,
    calibrate_points: int = 1000,
    test_points: int = 1000,
    fit_repeats: int = 3,
    anchors: int = 48,
    pairs: int = 32,
    warmups: int = 2,
    warmup_ms: float = 12.0,
    sentinel_every: int = 20,
    tolerance: float | None = None,
    traffic: Traffic | None = None,
) -> SweepPlan:
    """The sweep of one seed.

    calibrate and test come from the law with one repeat each. The `fit_points` hold the corners of the
    domain and both sides of steps (together at most half of them, corners first, steps at most a quarter),
    the rest is the law; no fit point is a calibrate or test point. Order is random, so any prefix is a fair sample; the
    anchors come early in the fit session, and so do `pairs` pairs of batches with equal and unequal
    contexts and as many with one and several chunks (fewer where the domain has no room for them).
    tolerance: None draws all `fit_points` here. A number draws a third of them (`rounds.start_points`) and
    leaves the others to be chosen while the session runs, until the held-out relative error of every cell is
    under it. traffic: shares of the scenes in calibrate and test, and weights of the cells when points are
    chosen.
    Raises UsageError for counts below 1 or a domain with too few distinct points.
    """
    counts = {"fit_points": fit_points, "calibrate_points": calibrate_points, "test_points": test_points}
    for name, value in counts.items():
        if value < 1:
            raise UsageError(f"draw_plan: {name} is {value}; expected at least 1")
    if not 0 <= seed < 2**63:
        raise UsageError(f"draw_plan: seed is {seed}; expected 0 to 2^63 - 1")
    if fit_repeats < 1:
        raise UsageError(f"draw_plan: fit_repeats is {fit_repeats}; expected at least 1")
    steps = tuple(sorted(set(step_totals)))
    fit_seed, calibrate_seed, test_seed, step_seed, order_seed, pair_seed = np.random.SeedSequence(seed).spawn(6)
    scenes = traffic.scenes if traffic else None
    calibrate = draw(domain, calibrate_points, steps, calibrate_seed, scenes=scenes)
    test = draw(domain, test_points, steps, test_seed, scenes=scenes)
    held_out = {(n, k, c, u) for n, k, c, u in [*calibrate.points.tolist(), *test.points.tolist()]}
    rng = np.random.default_rng(order_seed)
    room = int(fit_points * STEP_FIT_SHARE)
    sides = sum(len(step_sides(domain, scene, steps)) for scene in AXES)
    states = min(STEP_STATES, max(1, room // max(1, sides)))
    at_steps = step_pairs(domain, steps, states, step_seed)
    rng.shuffle(at_steps)
    del at_steps[room:]
    wanted = dict.fromkeys([*corners(domain), *at_steps])
    drawn_points = fit_points if tolerance is None else start_points(fit_points)
    extras = [point for point in wanted if point not in held_out][: drawn_points // 2]
    law = draw(domain, drawn_points - len(extras), steps, fit_seed, exclude=held_out | set(extras))
    fit_ids = _plan_points([*extras, *map(tuple, law.points.tolist())], 0, fit_repeats)
    calibrate_ids = _plan_points(calibrate.points, fit_points, 1)
    test_ids = _plan_points(test.points, fit_points + calibrate_points, 1)
    rng.shuffle(fit_ids)
    sentinel_id = fit_points + calibrate_points + test_points
    # Anchors and pairs are spread over the first third: a session that its time budget cuts short still has them.
    single = [*fit_ids[: len(fit_ids) // 3], *_anchors(calibrate_ids, anchors, fit_repeats)]
    paired = _pairs(domain, pairs, pair_seed, sentinel_id + 1)
    early = [*((point,) for point in single), *paired]
    rng.shuffle(early)
    fit_session = [*(point for group in early for point in group), *fit_ids[len(fit_ids) // 3 :]]
    n, k, c, u = sentinel_point(domain)
    draws = (calibrate, test, law)
    rounds = None
    if tolerance is not None and fit_points > drawn_points:
        rounds = Rounds(
            first_id=sentinel_id + 1 + 2 * len(paired),
            points=fit_points - drawn_points,
            repeats=fit_repeats,
            tolerance=tolerance,
        )
    return SweepPlan(
        seed=seed,
        domain=domain,
        step_totals=steps,
        sentinel=PlanPoint(
            point_id=sentinel_id,
            role="sentinel",
            scene=scene_of((n, k, c, u)),
            n=n,
            k=k,
            c=c,
            u=u,
            repeats=SENTINEL_REPEATS,
        ),
        sentinel_every=sentinel_every,
        warmups=warmups,
        warmup_ms=warmup_ms,
        fit=tuple(fit_session),
        calibrate=tuple(calibrate_ids),
        test=tuple(test_ids),
        clipped_fraction=sum(d.rejected for d in draws) / max(1, sum(d.drawn for d in draws)),
        rounds=rounds,
        traffic=traffic,
    )
