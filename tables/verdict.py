"""The verdict on a table: good, wide or do not use, from concerns that each name their reason and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from ..files.errors import RefutedTableError
from ..files.strict import Strict


class Grade(StrEnum):
    """How far a table may be relied on, best first."""

    GOOD = "good"
    WIDE = "wide"
    DO_NOT_USE = "do not use"


GRADES = tuple(Grade)


class ConcernV1(Strict):
    """One fact that a user of the table has to know. A concern of grade good changes nothing: it is a note."""

    name: str = Field(description="what was checked, such as test_session, stalls, level_shift, support")
    grade: Grade = Field(description="the best verdict that a table with this concern can have")
    reason: str = Field(description="what was found, with its figures")
    advice: str = Field(description="what to do about it; empty where there is nothing to do")


class VerdictV1(Strict):
    """The worst grade among the concerns, and the concerns, worst first."""

    grade: Grade
    concerns: list[ConcernV1]

    @classmethod
    def of(cls, concerns: Iterable[ConcernV1]) -> VerdictV1:
        """The verdict that these concerns add up to; good where there is none."""
        ordered = sorted(concerns, key=lambda concern: -GRADES.index(concern.grade))
        return cls(grade=ordered[0].grade if ordered else Grade.GOOD, concerns=ordered)

    def title(self) -> str:
        """One line: the grade, and the reason of the first concern that sets it."""
        worst = [concern for concern in self.concerns if concern.grade is self.grade]
        if self.grade is Grade.GOOD:
            return self.grade.value
        more = f" (and {len(worst) - 1} more)" if worst[1:] else ""
        return f"{self.grade.value}: {worst[0].reason}{more}"


def require_certified(certificate: object | None, where: str) -> None:
    """Check that a scheduler may decide by a table.

    Args:
        certificate: of the table.
        where: its file, for the message.

    Raises:
        RefutedTableError: nothing is certified, so the bounds are no bounds.
    """
    if certificate is None:
        raise RefutedTableError(
            f"{where}: nothing is certified, so half of the iterations would be over its bounds; expected a certified "
            "table: fit single iterations without --uncertified"
        )


def require_usable(verdict: VerdictV1 | None, where: str, allow_refuted: bool) -> None:
    """Check that decisions may rest on a table.

    Args:
        verdict: of the table.
        where: its file, for the message.
        allow_refuted: accept any verdict.

    Raises:
        RefutedTableError: the verdict is "do not use".
    """
    if verdict is None or verdict.grade is not Grade.DO_NOT_USE or allow_refuted:
        return
    worst = verdict.concerns[0]
    raise RefutedTableError(
        f"{where}: {verdict.title()}; expected a table that its own test session does not refute: {worst.advice}, or "
        "allow it all the same (--allow-refuted)"
    )
