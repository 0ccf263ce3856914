"""Writing the journal: by one process at a time, every line on disk before the next point starts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from ..files.errors import FingerprintMismatchError, ProfileFormatError, UsageError
from ..files.jsonl import LockedLines, open_locked
from ..tables.fingerprint import Fingerprint, Severity, differences
from .condition import Condition
from .devices.base import Sample
from .journal import (
    Choice,
    Chosen,
    End,
    Header,
    JournalContents,
    Line,
    MeasuredLine,
    SkippedLine,
    Start,
    parse_journal,
)
from .plan import PlanPoint, Session, SweepPlan

# A measuring process whose parent was killed finishes its point and goes: a resume may wait for that.
LOCK_PATIENCE_S = 5.0
ADVICE = "expected a writable file and free space: what was measured before is kept; make room and resume"


class JournalWriter:
    """An open, locked journal and what it held when it was opened. Made by `open_journal`."""

    def __init__(self, lines: LockedLines, header: Header, contents: JournalContents) -> None:
        self.path = lines.path
        self.contents = contents
        self._lines = lines
        self._header = header

    def now(self) -> float:
        """Seconds since the header was written; 0 when the wall clock was set back."""
        return max(0.0, time.time() - self._header.started_unix)

    def start(self, session: Session) -> None:
        began = datetime.now(UTC).isoformat(timespec="seconds")
        self._append(Start(session=session, pid=os.getpid(), started_s=self.now(), started_at=began))

    def measured(
        self,
        session: Session,
        point: PlanPoint,
        order: int,
        started_s: float,
        samples: Sequence[Sample],
        condition: Condition,
    ) -> None:
        """Raises ProfileFormatError for a time that no device can report; nothing is written then."""
        try:
            line = MeasuredLine(
                session=session,
                point_id=point.point_id,
                role=point.role,
                order=order,
                started_s=started_s,
                ended_s=self.now(),
                repeats=tuple((sample.latency_ms, sample.event_ms) for sample in samples),
                condition=condition,
            )
        except ValidationError as error:
            raise ProfileFormatError(
                f"{self.path}: session {session}, point {point.point_id} (n {point.n}, k {point.k}, c {point.c}, "
                f"u {point.u}): the device reported {list(samples)}; expected finite times above 0 ms: "
                "not recorded, check the device's clock and resume"
            ) from error
        self._append(line)

    def skipped(self, session: Session, point: PlanPoint, order: int, reason: str) -> None:
        self._append(
            SkippedLine(
                session=session,
                point_id=point.point_id,
                role=point.role,
                order=order,
                ended_s=self.now(),
                reason=reason,
            )
        )

    def chosen(self, choice: Choice) -> None:
        self._append(Chosen(ended_s=self.now(), choice=choice))

    def end(self, session: Session, complete: bool) -> None:
        self._append(End(session=session, ended_s=self.now(), complete=complete))

    def _append(self, line: Line) -> None:
        self._lines.append(line.model_dump_json())


@contextmanager
def open_journal(
    path: Path, plan: SweepPlan, fingerprint: Fingerprint, *, patience_s: float = LOCK_PATIENCE_S
) -> Iterator[JournalWriter]:
    """The journal at `path`, made with its header where there is none, locked while in use.

    Raises UsageError when it belongs to another plan, FingerprintMismatchError when it was measured on
    something else, ProfileFormatError when it is damaged, StorageError when it cannot be written,
    ChunkfitError naming the process when another one is writing it.
    """

    def busy() -> str:
        return (
            f"is being written by {_holder(path)}; expected no other measurement there: wait for it, stop it, or "
            "choose another output"
        )

    with open_locked(path, ADVICE, busy, patience_s=patience_s) as lines:
        contents = parse_journal(path.read_bytes(), str(path))
        header = contents.header
        lines.keep(contents.intact_bytes)
        if header is None:
            header = Header(plan_sha256=plan.sha256(), fingerprint=fingerprint, started_unix=time.time(), plan=plan)
            lines.append(header.model_dump_json())
        require_plan(header, plan, path)
        _require_fingerprint(header.fingerprint, fingerprint, path)
        yield JournalWriter(lines, header, contents)


def require_plan(header: Header, plan: SweepPlan, path: Path) -> None:
    """Raises UsageError when the journal was begun for another plan."""
    if header.plan_sha256 != plan.sha256():
        raise UsageError(
            f"{path}: was begun with another plan (sha256 {header.plan_sha256[:12]}, seed {header.plan.seed}; "
            f"asked {plan.sha256()[:12]}, seed {plan.seed}); expected the same domain, counts and seed: resume "
            "with those, or delete the journal to start anew"
        )


def _require_fingerprint(journal: Fingerprint, here: Fingerprint, path: Path) -> None:
    """Stricter than tables are: within one profile not even driver or library versions may change."""
    found = differences(journal, here)
    changed = found[Severity.REFUSE] + found[Severity.WARN]
    if changed:
        listed = "; ".join(f"{name}: {a!r} in the journal, {b!r} here" for name, a, b in changed)
        raise FingerprintMismatchError(
            f"{path}: was begun on something else ({listed}); expected the same device, model and versions: "
            "resume there, or delete the journal to start anew"
        )


def _holder(path: Path) -> str:
    """The process that wrote the last `start`; a torn read while it writes changes nothing here."""
    lines = parse_journal(path.read_bytes(), str(path)).lines
    pids = [line.pid for line in lines if isinstance(line, Start)]
    return f"process {pids[-1]}" if pids else "another process"
