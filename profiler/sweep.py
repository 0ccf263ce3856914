"""The whole sweep: three sessions, each its own process, and the profile of what they measured."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO

from ..files.errors import ChunkfitError, DeviceUnavailableError, StorageError, UsageError, error_of
from ..files.writing import make_folder
from ..tables.predictor import Predictor
from .assemble import Measured, SessionClock, build_profile
from .choose import journal_choice
from .devices import resolve_device
from .journal import Choice, JournalContents, MeasuredLine, SkippedLine, read_journal
from .journal_writer import require_plan
from .messages import ProfileRequest, SessionRequest, SweepEvent, journal_of
from .meta import SkippedPoint
from .plan import SESSIONS, SweepPlan
from .profile import Profile

INTERRUPT_PATIENCE_S = 10.0


def profile(
    request: ProfileRequest,
    *,
    resume: bool = False,
    on_event: Callable[[SweepEvent], None] = lambda event: None,
    predictor: Predictor | None = None,
) -> Profile:
    """Measure what `request` asks and write the profile to `request.out`.

    Until that file is there, all that was measured is in `request.journal`; resume goes on from it (and
    begins where there is none), with a new time budget and without the sessions that were over. Ctrl-C
    raises KeyboardInterrupt with the journal's path as its argument. predictor: chooses the points of a plan
    with rounds (`draw_plan` with a tolerance); any other plan is measured as it was drawn.
    Raises UsageError when there is a profile or journal already or the journal is of another plan,
    StorageError when nothing can be written there, and whatever a session met.
    """
    begin = time.monotonic()
    device = resolve_device(request.device)
    if request.plan.rounds and predictor is None:
        raise UsageError(
            "profile: the plan has rounds, whose points are chosen while it is measured, and there is no predictor "
            "to choose them by; expected one (chunkfit.fitters.predictor has it), or a plan drawn without a tolerance"
        )

    def choose() -> Choice:
        assert predictor is not None  # a plan without rounds asks for none
        return journal_choice(request.plan, read_journal(request.journal), predictor)

    contents = _found(request, resume)
    end = None if request.budget_s is None else begin + request.budget_s
    over = contents.ended() if contents else set()
    sessions = [session for session in SESSIONS if session not in over]
    cost: tuple[float, ...] | None = None
    try:
        while sessions:
            asked = SessionRequest(
                device=device,
                model=request.model,
                plan=request.plan,
                attention=request.attention,
                session_module=request.session_module,
                engine_arguments=request.engine_arguments,
                synthetic_pause_ms=request.synthetic_pause_ms,
                sessions=tuple(sessions),
                journal=request.journal,
                parent_pid=os.getpid(),
                spawned=time.monotonic(),
                end=end,
                cost=cost,
            )
            # Closed at once when on_event raises: the process must not outlive this call.
            with contextlib.closing(_run_process(asked, choose)) as events:
                for event in events:
                    if event.kind == "cost":
                        cost = event.cost or None
                    on_event(event)
            sessions.pop(0)
        result = profile_of_journal(read_journal(request.journal), str(request.out))
        if not len(result.select("fit")):
            raise UsageError(
                f"{request.out}: the time was up before the first fit point was measured; nothing was written: give a "
                f"larger budget, and delete {request.journal} to start anew"
            )
        result.save(request.out)
        request.journal.unlink()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(str(request.journal)) from None
    return result


def journalled_plan(out: Path) -> SweepPlan | None:
    """The plan of the unfinished sweep towards `out`, None where there is none: what a resume goes on with.

    (A default domain may depend on the free memory of the moment; the plan of a resume must not.)
    Raises ProfileFormatError for a damaged journal.
    """
    path = journal_of(out)
    if not path.exists():
        return None
    header = read_journal(path).header
    return header.plan if header else None


def profile_of_journal(contents: JournalContents, source: str) -> Profile:
    """The profile of what a journal holds, complete or not. Raises UsageError when it holds nothing."""
    header = contents.header
    if header is None:
        raise UsageError(f"{source}: the journal is empty; expected measured points: measure first")
    plan = header.plan
    by_id = {point.point_id: point for session in SESSIONS[1:] for point in plan.points(session)}
    fit_by_id = {point.point_id: point for point in contents.fit_points(plan)}
    measured, skipped = [], []
    for line in contents.lines:
        if not isinstance(line, MeasuredLine | SkippedLine):
            continue
        if line.role == "sentinel":
            point = plan.sentinel
        else:
            point = (fit_by_id if line.session == "fit" else by_id)[line.point_id]
        if isinstance(line, MeasuredLine):
            measured.append(Measured(line.session, point, line.order, line.started_s, line.repeats, line.condition))
        elif line.role != "sentinel":
            n, k, c, u = point.point
            skipped.append(
                SkippedPoint(session=line.session, point_id=line.point_id, n=n, k=k, c=c, u=u, reason=line.reason)
            )
    clocks = {session: SessionClock(contents.seconds(session), contents.started_at(session)) for session in SESSIONS}
    rounds = [choice.meta() for choice in contents.choices()]
    return build_profile(plan, header.fingerprint, measured, skipped, clocks, source, rounds)


def _found(request: ProfileRequest, resume: bool) -> JournalContents | None:
    """What an earlier sweep left. Raises where going on would lose or mix something."""
    out, journal = request.out, request.journal
    make_folder(out.parent)
    if journal.exists():
        contents = read_journal(journal)
        if contents.header is None:
            return None
        if not resume:
            points = sum(len(contents.done(session)) for session in SESSIONS)
            raise UsageError(
                f"{journal}: an unfinished sweep with {points:,} measured points is there; nothing was changed: "
                "go on with --resume, or delete the file to start anew"
            )
        require_plan(contents.header, request.plan, journal)
        return contents
    if out.exists() and not request.overwrite:
        raise UsageError(
            f"{out}: exists already and is complete; nothing was changed: choose another --out or pass --overwrite"
        )
    return None


def _run_process(request: SessionRequest, choose: Callable[[], Choice]) -> Generator[SweepEvent, None, None]:
    """Events of one session's process, which gets a choice whenever it asks. Raises the error it ended with."""
    name = _written(request)
    # -P: what lies in the working directory must not shadow the standard library.
    command = [sys.executable, "-P", "-m", request.session_module, name]
    failure: ChunkfitError | None = None
    try:
        with tempfile.TemporaryFile() as said:
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said) as process:
                try:
                    assert process.stdin is not None  # pipes were asked for
                    assert process.stdout is not None
                    for line in process.stdout:
                        message = json.loads(line)
                        if "error" in message:
                            failure = error_of(message)
                        elif "wanted" in message:
                            choice = choose()
                            with contextlib.suppress(BrokenPipeError):  # its time was up
                                os.write(process.stdin.fileno(), choice.model_dump_json().encode() + b"\n")
                            yield SweepEvent(kind="round", session="fit", message=choice.title())
                        else:
                            yield SweepEvent.model_validate(message)
                except BaseException:
                    _interrupt(process)
                    raise
            if process.returncode in (130, -signal.SIGINT):
                raise KeyboardInterrupt
            if failure is not None:
                raise failure
            if process.returncode != 0:
                raise _unexplained(request, process.returncode, said)
    finally:
        with contextlib.suppress(FileNotFoundError):  # the process removes it once read
            Path(name).unlink()


def _written(request: SessionRequest) -> str:
    """The request in a temporary file, whose name this is."""
    try:
        descriptor, name = tempfile.mkstemp(prefix="chunkfit-request-", suffix=".json")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(request.model_dump_json())
    except OSError as error:
        raise StorageError(
            f"{tempfile.gettempdir()}: a temporary file cannot be written ({error.strerror or error}); expected "
            "free space there: make room, then --resume"
        ) from error
    return name


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ends the session's process after the line it may be writing."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(INTERRUPT_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _unexplained(request: SessionRequest, code: int, said: IO[bytes]) -> ChunkfitError:
    said.seek(0)
    tail = said.read().decode(errors="replace").strip().splitlines()[-5:]
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return DeviceUnavailableError(
        f"session {request.sessions[0]} on {request.device}: the measuring process {how} "
        f"({' | '.join(tail) or 'it said nothing'}); what it measured is kept in {request.journal}: go on with "
        "--resume"
    )
