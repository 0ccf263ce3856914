"""The process that runs one session of a sweep: python -m chunkfit.profiler.session REQUEST."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..files.errors import ChunkfitError, DeviceMemoryError, message_of
from .cost import CostModel, session_deadline, usual_work
from .devices import open_device
from .devices.base import Device
from .journal import Choice
from .journal_writer import open_journal
from .messages import Ask, Asking, SessionRequest, SweepEvent, read_choice
from .plan import LEAST_POINTS, PlanPoint, Session, SweepPlan
from .session_run import OnEvent, SessionRun
from .timing import measure, quiet_gc

PILOT_POINTS = 12
PILOT_LEAST = 4  # whatever they take: without an estimate the budget cannot be shared out
PILOT_SHARE = 0.05  # of the time budget, at most

Opener = Callable[[SessionRequest], Device]


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


def _not_in(done: set[int], points: Sequence[PlanPoint]) -> list[PlanPoint]:
    return [point for point in points if point.point_id not in done]


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
        tell(json.dumps(message_of(error)))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # nobody listens any more; all that was measured is on disk
        return 1


def serve(request: SessionRequest, on_event: OnEvent, ask: Ask, open_for: Opener) -> int:
    """Open the device, say the cost where it is not known, run the first session of the request."""
    plan, session = request.plan, request.sessions[0]
    device = open_for(request)
    opened = time.monotonic()
    with open_journal(request.journal, plan, device.fingerprint) as journal:
        startup_s = time.monotonic() - request.spawned
        # The profile is made from the journal at the end, which takes as long as reading it here.
        end = None if request.end is None else request.end - (time.monotonic() - opened)
        contents = journal.contents
        known = {name: contents.fit_points(plan) if name == "fit" else plan.points(name) for name in request.sessions}
        todo = {name: _not_in(contents.done(name), known[name]) for name in request.sessions}
        rounds = Asking(plan, session, journal, None)
        if request.cost is None:
            limit = None if end is None else PILOT_SHARE * (end - request.spawned)
            cost = pilot(plan, [point for points in todo.values() for point in points], device, limit)
        else:
            cost = CostModel(request.cost)
        seconds: dict[Session, float] = {name: cost.session_seconds(plan, points) for name, points in todo.items()}
        seconds[session] += cost.rounds_seconds(usual_work(plan), len(plan.fit), rounds.left)
        if request.cost is None:
            on_event(SweepEvent(kind="cost", session=session, estimate=seconds, cost=cost.coefficients))
        deadline = None
        if end is not None:
            least = {
                name: cost.session_seconds(plan, todo[name][: LEAST_POINTS[name] - len(known[name]) + len(todo[name])])
                for name in request.sessions
                if LEAST_POINTS[name] > len(known[name]) - len(todo[name])
            }
            now = time.monotonic()
            deadline = session_deadline(now, end, request.sessions, seconds, startup_s, least)
        outcome = SessionRun(
            plan,
            session,
            device,
            journal,
            deadline,
            on_event,
            cost=cost,
            alive=lambda: os.getppid() == request.parent_pid,
            ask=ask,
        ).run()
    return 1 if outcome == "orphaned" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
