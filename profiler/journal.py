"""The append-only record of a sweep in progress: one JSON line per finished point, flushed to disk.

Lines: a header (once), `start` and `end` of each attempt at a session, and between them `measured` and
`skipped` points, and `chosen` ones before the first of them is measured. A killed process can leave one cut
line, the last; it is dropped. Anything else that does not read is damage and is reported with its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ..files.errors import ProfileFormatError, UsageError
from ..files.strict import Frozen, findings
from ..tables.fingerprint import Fingerprint
from .columns import Role
from .condition import Condition
from .meta import RoundMeta
from .plan import SESSIONS, PlanPoint, Session, SweepPlan

# History: 1 first.
JOURNAL_VERSION: Literal[1] = 1

Count = Annotated[int, Field(ge=0)]
Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Header(Frozen):
    """What is measured on what. The plan is kept whole, so that a journal can be read and resumed alone."""

    kind: Literal["header"] = "header"
    journal_version: Literal[1] = JOURNAL_VERSION
    plan_sha256: str
    fingerprint: Fingerprint
    started_unix: Seconds
    plan: SweepPlan


class Start(Frozen):
    """A process began to measure a session. Times are seconds since the header was written."""

    kind: Literal["start"] = "start"
    session: Session
    pid: int
    started_s: Seconds
    started_at: str


class MeasuredLine(Frozen):
    """A point (or the sentinel) with the (latency_ms, event_ms) of each timed iteration."""

    kind: Literal["measured"] = "measured"
    session: Session
    point_id: Count
    role: Role
    order: Count
    started_s: Seconds
    ended_s: Seconds
    repeats: Annotated[tuple[tuple[Milliseconds, Milliseconds | None], ...], Field(min_length=1)]
    condition: Condition


class SkippedLine(Frozen):
    """A point that did not fit the device."""

    kind: Literal["skipped"] = "skipped"
    session: Session
    point_id: Count
    role: Role
    order: Count
    ended_s: Seconds
    reason: str


class Choice(Frozen):
    """A round: what is measured next in the fit session, or why nothing is, and the error that says so."""

    round: Annotated[int, Field(ge=1)]
    points: tuple[PlanPoint, ...]
    measured: Annotated[Count, Field(description="fit points that the choice rests on")]
    worst: Annotated[str, Field(description="the cell with the largest held-out error")]
    worst_error: Annotated[float, Field(ge=0, allow_inf_nan=False, description="relative")]
    stopped: Annotated[
        Literal["tolerance", "points"] | None,
        Field(description="no more rounds: every cell is under the tolerance, or no points are left"),
    ] = None

    def title(self) -> str:
        """The round in words."""
        known = f"after {self.measured:,} points the worst cell is off by {self.worst_error:.1%} ({self.worst})"
        if self.stopped == "tolerance":
            return f"{known}: every cell is under the tolerance"
        return f"{known}: " + (f"{len(self.points):,} more" if self.points else "all points are spent")

    def meta(self) -> RoundMeta:
        """What the profile keeps of it."""
        return RoundMeta(
            measured=self.measured,
            chosen=len(self.points),
            worst=self.worst,
            worst_error=self.worst_error,
            stopped=self.stopped,
        )


class Chosen(Frozen):
    """A round that was begun, before its first point is measured."""

    kind: Literal["chosen"] = "chosen"
    session: Literal["fit"] = "fit"
    ended_s: Seconds
    choice: Choice


class End(Frozen):
    """A session is over: all points were measured (complete) or its time was up."""

    kind: Literal["end"] = "end"
    session: Session
    ended_s: Seconds
    complete: bool


Line = Start | MeasuredLine | SkippedLine | Chosen | End
_LINES: TypeAdapter[Header | Line] = TypeAdapter(
    Annotated[Header | Start | MeasuredLine | SkippedLine | Chosen | End, Field(discriminator="kind")]
)


@dataclass(frozen=True, slots=True)
class JournalContents:
    """header: None when not even that was written whole. intact_bytes: where the next line belongs."""

    header: Header | None
    lines: tuple[Line, ...]
    intact_bytes: int

    def done(self, session: Session) -> set[int]:
        """Ids of the session's points that need not be measured again; the sentinel is never done."""
        return {
            line.point_id
            for line in self.lines
            if isinstance(line, MeasuredLine | SkippedLine) and line.session == session and line.role != "sentinel"
        }

    def choices(self) -> list[Choice]:
        """The rounds so far, in order."""
        return [line.choice for line in self.lines if isinstance(line, Chosen)]

    def fit_points(self, plan: SweepPlan) -> list[PlanPoint]:
        """Points of the plan's fit session, drawn and chosen, in the order they are measured."""
        return [*plan.fit, *(point for choice in self.choices() for point in choice.points)]

    def ended(self) -> set[Session]:
        """Sessions that are over."""
        return {line.session for line in self.lines if isinstance(line, End)}

    def next_order(self, session: Session) -> int:
        """The place in the session of what is measured next."""
        orders = [
            line.order
            for line in self.lines
            if isinstance(line, MeasuredLine | SkippedLine) and line.session == session
        ]
        return max(orders, default=-1) + 1

    def seconds(self, session: Session) -> float:
        """Wall time of all attempts at a session, each up to its last line."""
        total, begin, last = 0.0, 0.0, 0.0
        for line in self.lines:
            if line.session != session:
                continue
            if isinstance(line, Start):
                total += last - begin
                begin = last = line.started_s
            else:
                last = line.ended_s
        return total + last - begin

    def started_at(self, session: Session) -> str | None:
        """When the first attempt at a session began."""
        starts = [line.started_at for line in self.lines if isinstance(line, Start) and line.session == session]
        return starts[0] if starts else None


def read_journal(path: str | Path) -> JournalContents:
    """Raises ProfileFormatError with the line number for damage, UsageError when it cannot be opened."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or error}); expected the journal of an unfinished sweep"
        ) from error
    return parse_journal(data, str(path))


def parse_journal(data: bytes, where: str) -> JournalContents:
    """The lines of a journal. Raises ProfileFormatError naming `where` and the line."""
    intact = data.rfind(b"\n") + 1  # after it: nothing, or the one line that a kill cut
    header: Header | None = None
    lines: list[Line] = []
    planned: dict[Session, set[int]] = {}
    seen: dict[tuple[Session, int], int] = {}
    for number, text in enumerate(data[:intact].split(b"\n")[:-1], start=1):
        line = _parse_line(text, f"{where}, line {number}")
        if isinstance(line, Header) is not (number == 1):
            raise ProfileFormatError(
                f"{where}, line {number}: found a line of kind {line.kind}; expected the header first and once: "
                "the file was edited; restore it or start a new profile"
            )
        if isinstance(line, Header):
            header = line
            planned = {session: {p.point_id for p in line.plan.points(session)} for session in SESSIONS}
            continue
        if isinstance(line, Chosen):
            _add_chosen(
                line.choice, planned["fit"], sum(isinstance(x, Chosen) for x in lines), f"{where}, line {number}"
            )
        if isinstance(line, MeasuredLine | SkippedLine) and line.role != "sentinel":
            key = (line.session, line.point_id)
            if key in seen or line.point_id not in planned[line.session]:
                found = f"stands on line {seen[key]} too" if key in seen else "is not in the plan"
                raise ProfileFormatError(
                    f"{where}, line {number}: point {line.point_id} of session {line.session} {found}; expected "
                    "each planned point once: restore the file, or delete the line"
                )
            seen[key] = number
        lines.append(line)
    return JournalContents(header, tuple(lines), intact)


def _add_chosen(choice: Choice, planned: set[int], earlier: int, where: str) -> None:
    ids = {point.point_id for point in choice.points}
    if choice.round != earlier + 1 or len(ids) < len(choice.points) or ids & planned:
        raise ProfileFormatError(
            f"{where}: round {choice.round} of {len(choice.points)} chosen points, {len(ids - planned)} of them new; "
            f"expected round {earlier + 1} with new points only: the file was edited; restore it"
        )
    planned |= ids


def _parse_line(text: bytes, where: str) -> Header | Line:
    try:
        return _LINES.validate_json(text)
    except ValidationError as error:
        raise ProfileFormatError(
            f"{where}: {findings(error)}; expected a line that chunkfit wrote: restore the file, or delete it and "
            "measure anew"
        ) from error
