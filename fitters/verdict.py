"""Concerns about a fitted table, from its profile and its figures: what the verdict is made of.

Grades: a test session that refutes the promise makes a table unusable; a loud machine, drift between sessions or a
bound far above the times make it wide; notes change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..profiler.importers.copies import COPY, RANK
from ..profiler.meta import ProfileMeta
from ..profiler.profile import Profile
from ..tables.arrays import TableArrays
from ..tables.schema_v1 import CertificateV1, FactorsV1, TestV1
from ..tables.support import Support
from ..tables.verdict import ConcernV1, Grade, VerdictV1
from .regimes import regime_concerns
from .rows import Rows
from .stalls import stall_concerns

# Mean U/T. Clean profiles of 300 to 1,000 points have 1.04 to 1.25; a bound at 1.5 leaves a third of a budget unused.
WIDE_RATIO = 1.5
LOUD_DRIFT = 1.05  # between sessions; above it the machine is not quiet, whatever a sentinel says
MANY_FLAGGED = 0.05  # share of a session's points
MANY_UNANSWERED = 0.01  # share of the test rows

UNCERTIFIED = ConcernV1(
    name="uncertified",
    grade=Grade.WIDE,
    reason="nothing is certified: bounds are expected times, which half of the iterations exceed",
    advice="plan with it, and profile or log single iterations before a scheduler decides by it",
)


def verdict_of(
    profile: Profile,
    arrays: TableArrays,
    calibrate: Rows,
    test: Rows,
    certificate: CertificateV1,
    figures: TestV1,
    factors: FactorsV1,
) -> VerdictV1:
    """The verdict on a table fitted to a profile.

    calibrate: the rows of the certificate. test: all rows of the test session. certificate, figures, factors: of the
    table.
    """
    unanswered_share = float(1 - arrays.answers(test.points).mean())
    return VerdictV1.of(
        [
            *_promise(certificate, figures),
            *_width(figures),
            *_machine(profile.meta),
            *_drift(factors),
            *_draws(profile.meta),
            *_support(arrays.support, unanswered_share),
            *regime_concerns(profile, arrays),
            *stall_concerns(arrays, calibrate, certificate.coverage, certificate.confidence),
        ]
    )


def _promise(certificate: CertificateV1, test: TestV1) -> Iterator[ConcernV1]:
    found = test.coverage
    if found.high is not None and found.high < certificate.coverage:
        yield ConcernV1(
            name="test_session",
            grade=Grade.DO_NOT_USE,
            reason=f"the promise does not hold: {certificate.coverage:g} is certified, the test session covers "
            f"{found.covered:,} of {found.rows:,} rows (upper 95% limit {found.high:.4f})",
            advice="find what changed between the sessions and measure again, or cut the log to one regime",
        )


def _width(test: TestV1) -> Iterator[ConcernV1]:
    ratio = test.errors["all"].mean_bound_ratio
    if ratio > WIDE_RATIO:
        yield ConcernV1(
            name="width",
            grade=Grade.WIDE,
            reason=f"the bound is {ratio:.2f} times the measured time on average",
            advice="measure on a quieter machine, or ask for less coverage (--coverage 0.95)",
        )


def _machine(meta: ProfileMeta) -> Iterator[ConcernV1]:
    loud = {name: session.sentinel for name, session in meta.sessions.items() if session.sentinel.quiet is False}
    if loud:
        listed = ", ".join(f"{name}: {sentinel.title()}" for name, sentinel in loud.items())
        yield ConcernV1(
            name="quiet",
            grade=Grade.WIDE,
            reason=f"the machine was not quiet in {listed}",
            advice="stop other work on the machine and profile again",
        )
    for name, session in meta.sessions.items():
        if session.points and session.flagged > MANY_FLAGGED * session.points:
            yield ConcernV1(
                name="throttle",
                grade=Grade.WIDE,
                reason=f"session {name}: {session.flagged:,} of {session.points:,} points under a throttle",
                advice="lock the clocks or improve the cooling, and profile again",
            )


def _drift(factors: FactorsV1) -> Iterator[ConcernV1]:
    drift = factors.session_drift
    if drift is not None and drift > LOUD_DRIFT:
        yield ConcernV1(
            name="drift",
            grade=Grade.WIDE,
            reason=f"the sessions differ by {100 * (drift - 1):.0f}%: the next one may differ as much",
            advice="profile again where the machine is steady",
        )


def _draws(meta: ProfileMeta) -> Iterator[ConcernV1]:
    counts = {} if meta.imported is None else meta.imported.left_out
    dropped = {reason: counts[reason] for reason in (COPY, RANK) if reason in counts}
    if dropped:
        yield ConcernV1(
            name="draws",
            grade=Grade.GOOD,
            reason="rows of the log that are no draws of their own were left out: "
            + ", ".join(f"{count:,} times {reason}" for reason, count in dropped.items()),
            advice="",
        )


def _support(support: Support | None, unanswered_share: float) -> Iterator[ConcernV1]:
    if unanswered_share > MANY_UNANSWERED:
        yield ConcernV1(
            name="support",
            grade=Grade.WIDE,
            reason=f"{100 * unanswered_share:.1f}% of the test rows are batches that nothing measured is above",
            advice="log or profile the batches that are served now",
        )
    elif support is not None:
        yield ConcernV1(
            name="support",
            grade=Grade.GOOD,
            reason="parts of the domain were not measured; answers there are by order, or refused",
            advice="",
        )
