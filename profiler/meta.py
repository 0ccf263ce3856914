"""What a profile says about itself: stored as JSON in the Parquet file's metadata."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ..files.strict import Frozen
from ..tables.domain import Domain
from ..tables.fingerprint import Fingerprint
from .condition import SentinelVerdict
from .traffic import Traffic

# History: 1 first.
PROFILE_VERSION: Literal[1] = 1

Count = Annotated[int, Field(ge=0)]


def known_aggregation(text: str) -> str:
    """`text`. Raises ValueError for what no aggregation is."""
    if not re.fullmatch(r"iteration|unknown|mean:[1-9][0-9]*", text):
        raise ValueError(f"aggregation {text!r}; expected iteration, mean:N (N iterations) or unknown")
    return text


Aggregation = Annotated[str, AfterValidator(known_aggregation)]


class SessionMeta(Frozen):
    """One session: what was planned, measured and left out, and how quiet the machine was."""

    planned: Annotated[Count, Field(description="points of the plan, anchors and pairs included")]
    points: Annotated[Count, Field(description="points measured, anchors and pairs included")]
    rows: Annotated[Count, Field(description="timed iterations, sentinels included")]
    flagged: Annotated[Count, Field(description="points, sentinels included, measured while the device throttled")]
    skipped: Annotated[Count, Field(description="points that did not fit the device")]
    seconds: Annotated[float, Field(ge=0, description="wall time spent measuring")]
    started_at: Annotated[str | None, Field(description="ISO 8601 in UTC, None where nothing was timed")]
    sentinel: SentinelVerdict


class RoundMeta(Frozen):
    """One round of points chosen while the fit session ran; the last may hold none and say why."""

    measured: Annotated[Count, Field(description="fit points that the choice rests on")]
    chosen: Count
    worst: Annotated[str, Field(description="the cell with the largest held-out error then")]
    worst_error: Annotated[float, Field(ge=0, description="relative")]
    stopped: Annotated[
        Literal["tolerance", "points"] | None, Field(description="no further round; None in the last: time was up")
    ]


class SkippedPoint(Frozen):
    """A planned point that could not be measured."""

    session: str
    point_id: Count
    n: Count
    k: Count
    c: Count
    u: Count
    reason: str


class ImportedFrom(Frozen):
    """Where an imported profile comes from: no plan and no sentinel stand behind it, but a log."""

    format: Annotated[str, Field(description="as `chunkfit ingest` names it")]
    file: Annotated[str, Field(description="name of the log, without its folder")]
    sha256: Annotated[str, Field(description="of the log's bytes")]
    split: Annotated[Literal["time", "points", "replicates"], Field(description="how the sessions were cut")]
    shares_percent: Annotated[tuple[int, int, int], Field(description="of fit, calibrate and test")]
    stated: Annotated[dict[str, str], Field(description="what the user said and the log does not")]
    left_out: Annotated[dict[str, int], Field(description="rows that are no timed iteration, by reason")]
    unequal_contexts: Annotated[Count, Field(description="rows known to have them; they stand by their mean")]
    several_chunks: Annotated[Count, Field(description="rows known to have them; they stand by their sums")]


class ProfileMeta(Frozen):
    """Facts about the whole profile."""

    profile_version: Literal[1] = PROFILE_VERSION
    fingerprint: Fingerprint
    aggregation: Annotated[Aggregation, Field(description="what a row is; only single iterations can certify a P99")]
    domain: Domain
    step_totals: tuple[int, ...]
    seed: int
    plan_sha256: Annotated[str, Field(description="empty where there was no plan: imported")]
    sessions: dict[str, SessionMeta]
    skipped: tuple[SkippedPoint, ...] = ()
    tolerance: Annotated[float | None, Field(description="of the rounds, None: all points drawn beforehand")] = None
    rounds: tuple[RoundMeta, ...] = ()
    traffic: Annotated[Traffic | None, Field(description="None: scenes in equal shares")] = None
    joined: Annotated[tuple[int, ...], Field(description="first point id of each further profile, of several")] = ()
    clipped_fraction: Annotated[float, Field(ge=0, le=1, description="draws that the domain refused")]
    imported: Annotated[ImportedFrom | None, Field(description="None: measured by chunkfit")] = None
