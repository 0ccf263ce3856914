"""One session of a sweep, and the process that runs it: python -m chunkfit.profiler.session REQUEST."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..files.errors import ChunkfitError, DeviceMemoryError
from .condition import Condition, ThrottleWatch
from .cost import CostModel, session_deadline, usual_work, work_of
from .devices import open_device
from .devices.base import Device
from .journal import Choice
from .journal_writer import JournalWriter, open_journal
from .messages import Ask, Asking, SessionRequest, SweepEvent, read_choice
from .plan import PlanPoint, Session, SweepPlan
from .timing import measure, measure_in_turn, quiet_gc, side_by_side, with_sentinels

PILOT_POINTS = 12
PILOT_LEAST = 4  # whatever they take: without an estimate the budget cannot be shared out
PILOT_SHARE = 0.05  # of the time budget, at most

OnEvent = Callable[[SweepEvent], None]
Opener = Callable[[SessionRequest], Device]
Outcome = Literal["complete", "deadline", "orphaned"]


def run_session(
    plan: SweepPlan,
    session: Session,
    device: Device,
    journal: JournalWriter,
    deadline: float | None,
    on_progress: OnEvent,
    *,
    cost: CostModel | None = None,
    clock: Callable[[], float] = time.monotonic,
    alive: Callable[[], bool] = lambda: True,
    ask: Ask | None = None,
) -> Outcome:
    """Measure the session's points that the journal does not hold yet, in the plan's order.

    In the fit session of a plan with rounds, `ask` gives further points when these are done. Nothing is
    measured meanwhile: on a CPU the one would disturb the other. Its time is the session's.

    deadline: on `clock`; the session stops before the first point whose predicted time passes it (so that
    what is measured stays a fair sample), and so exceeds it by one point at most.
    A point that does not fit the device is recorded as skipped. In the fit session a point that was measured
    while the device throttled is measured again, MOST_TRIES times in all and while there is time; the other
    sessions, whose points must not be chosen, only flag it. alive: asked before each point; False
    stops without ending the session.
    """
    cost = cost if cost is not None else CostModel()
    watch = ThrottleWatch()
    done = journal.contents.done(session)
    known = journal.contents.fit_points(plan) if session == "fit" else plan.points(session)
    todo = [point for point in known if point.point_id not in done]
    total, finished, order = plan.planned(session), len(done), journal.contents.next_order(session)
    rounds = Asking(plan, session, journal, ask)
    journal.start(session)
    on_progress(SweepEvent(kind="session", session=session, done=finished, total=total))

    def left_s() -> float | None:
        return None if deadline is None else deadline - clock()

    first = todo or rounds.next_points(left_s())
    schedule = side_by_side(with_sentinels(plan, first) if first else [])
    work, usual = _work_of(schedule, plan), usual_work(plan)

    def may_repeat(point: PlanPoint, seconds: float) -> bool:
        # The sentinel that closes the session needs its time too.
        in_time = deadline is None or clock() + seconds + float(cost.seconds(work[:1]).sum()) <= deadline
        return session == "fit" and point.role != "sentinel" and in_time

    def at_once(group: tuple[PlanPoint, ...]) -> None:
        nonlocal order
        tries, again = 0, True
        try:
            while again:
                begin, started_s = clock(), journal.now()
                samples = measure_in_turn(device, group, plan) if group[1:] else [measure(device, group[0], plan)]
                state = device.state()
                flagged, tries = watch.flagged(state), tries + 1
                again = may_repeat(group[0], clock() - begin) and watch.worth_another(flagged, tries)
        except DeviceMemoryError as error:
            for point in group:
                journal.skipped(session, point, order, str(error))
                on_progress(SweepEvent(kind="skipped", session=session, done=finished, total=total, message=str(error)))
                order += 1
        else:
            condition = Condition(state=state, flagged=flagged, tries=tries)
            for point, own in zip(group, samples, strict=True):
                journal.measured(session, point, order, started_s, own, condition)
                order += 1
            for point in group:
                cost.observe(point, plan.warmups + point.iterations, (clock() - begin) / len(group))

    outcome: Outcome = "complete"
    with quiet_gc():
        for place, group in enumerate(schedule):
            if not alive():
                return "orphaned"
            need = float(cost.seconds(work[[place, 0]]).sum())
            if deadline is not None and clock() + need > deadline:
                outcome = "deadline"
                break
            at_once(group)
            if group[0].role != "sentinel":
                finished += len(group)
                left = float(cost.seconds(work[place + 1 :]).sum()) + cost.rounds_seconds(usual, finished, rounds.left)
                left = max(0.0, min(left, deadline - clock())) if deadline is not None else left
                on_progress(SweepEvent(kind="progress", session=session, done=finished, total=total, seconds_left=left))
            if place + 1 == len(schedule) and (more := rounds.next_points(left_s())):
                schedule += side_by_side(with_sentinels(plan, more)[1:])
                work = _work_of(schedule, plan)
        if outcome == "deadline" and place > 0 and schedule[place - 1][0].role != "sentinel":
            at_once((plan.sentinel,))
    if rounds.left:
        outcome = "deadline"
    journal.end(session, complete=outcome == "complete")
    message = "" if outcome == "complete" else f"time was up after {finished} of {total} points"
    total = finished if outcome == "complete" else total  # rounds may have stopped at their tolerance
    on_progress(SweepEvent(kind="end", session=session, done=finished, total=total, message=message))
    return outcome


def _work_of(schedule: Sequence[tuple[PlanPoint, ...]], plan: SweepPlan) -> NDArray[np.float64]:
    return np.asarray([work_of(group, plan.warmups).sum(axis=0) for group in schedule]).reshape(-1, 5)


def pilot(plan: SweepPlan, points: Sequence[PlanPoint], device: Device, limit_s: float | None) -> CostModel:
    """A cost model from a few random points, not recorded, in about `limit_s` seconds.

    The sentinel goes first and untimed: a device's first iterations are unlike all others.
    """
    cost = CostModel()
    begin = time.monotonic()
    rng = np.random.default_rng([plan.seed, len(points)])
    observed = 0
    chosen = [points[index] for index in rng.permutation(len(points))[:PILOT_POINTS].tolist()]
    with contextlib.suppress(DeviceMemoryError):  # the session records it
        measure(device, plan.sentinel, plan)
    with quiet_gc():
        for point in chosen:
            start = time.monotonic()
            # Two numbers of repeats: what a point costs by itself can be told from what iterations cost.
            repeats = 1 + 3 * (observed % 2)
            if limit_s is not None and start - begin > limit_s and observed >= PILOT_LEAST:
                break
            try:
                measure(device, point.model_copy(update={"repeats": repeats}), plan)
            except DeviceMemoryError:
                continue
            cost.observe(point, plan.warmups + repeats, time.monotonic() - start)
            observed += 1
    if observed:
        cost.fit()
    return cost


def open_requested(request: SessionRequest) -> Device:
    """The one of DEVICES that a request names."""
    return open_device(
        request.device,
        request.model,
        request.plan.domain,
        request.plan.seed,
        request.sessions[0],
        attention=request.attention,
        synthetic_pause_ms=request.synthetic_pause_ms,
    )


def main(arguments: Sequence[str], open_for: Opener = open_requested) -> int:
    """Runs the session that the request file describes; events go to stdout as JSON lines.

    open_for: opens the device of a request.
    Where a round of points is wanted, {"wanted": "round"} is told and a `Choice` read from stdin.
    Returns the exit code; an error is told as {"error": class name, "message": text} first.
    """
    # Whatever a library prints belongs beside the events, not among them.
    events = os.dup(1)
    os.dup2(2, 1)

    def tell(text: str) -> None:
        os.write(events, text.encode() + b"\n")

    try:
        request_path = Path(arguments[0])
        request = SessionRequest.model_validate_json(request_path.read_bytes())
        request_path.unlink()

        def ask(seconds: float | None) -> Choice | None:
            tell(json.dumps({"wanted": "round"}))
            return read_choice(sys.stdin.fileno(), seconds)

        return serve(request, lambda event: tell(event.model_dump_json()), ask, open_for)
    except ChunkfitError as error:
        tell(json.dumps({"error": type(error).__name__, "message": str(error)}))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # nobody listens any more; all that was measured is on disk
        return 1


def serve(request: SessionRequest, on_event: OnEvent, ask: Ask, open_for: Opener) -> int:
    """Open the device, say the cost where it is not known, run the first session of the request."""
    plan, session = request.plan, request.sessions[0]
    device = open_for(request)
    startup_s = time.monotonic() - request.spawned
    with open_journal(request.journal, plan, device.fingerprint) as journal:
        contents = journal.contents
        known = {name: contents.fit_points(plan) if name == "fit" else plan.points(name) for name in request.sessions}
        todo = {name: [p for p in known[name] if p.point_id not in contents.done(name)] for name in request.sessions}
        rounds = Asking(plan, session, journal, None)
        if request.cost is None:
            limit = None if request.end is None else PILOT_SHARE * (request.end - request.spawned)
            cost = pilot(plan, [point for points in todo.values() for point in points], device, limit)
        else:
            cost = CostModel(request.cost)
        seconds: dict[Session, float] = {name: cost.session_seconds(plan, points) for name, points in todo.items()}
        seconds[session] += cost.rounds_seconds(usual_work(plan), len(plan.fit), rounds.left)
        if request.cost is None:
            on_event(SweepEvent(kind="cost", session=session, estimate=seconds, cost=cost.coefficients))
        deadline = None
        if request.end is not None:
            deadline = session_deadline(time.monotonic(), request.end, request.sessions, seconds, startup_s)
        outcome = run_session(
            plan,
            session,
            device,
            journal,
            deadline,
            on_event,
            cost=cost,
            alive=lambda: os.getppid() == request.parent_pid,
            ask=ask,
        )
    return 1 if outcome == "orphaned" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
