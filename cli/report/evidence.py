"""Everything the page shows, computed from a table file and the profile it was fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...files.errors import CertificationError, ChunkfitError, TableFormatError, UsageError
from ...fitters.metrics import clopper_pearson
from ...fitters.rows import Rows, held_out
from ...fitters.validate import Repeat, repeated, validate_with_profile
from ...profiler.profile import Profile, file_sha256
from ...tables.arrays import TableArrays
from ...tables.batch import Scene
from ...tables.document import Finding
from ...tables.schema_v1 import TableV1

BANDS = 4  # of expected time, with equally many test rows each
HELD_OUT = ("calibrate", "test")


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows of one session, one per point, beside what the table says of them; all of shape (rows,)."""

    rows: Rows
    expected_ms: NDArray[np.float64]
    bound_ms: NDArray[np.float64]

    @property
    def above(self) -> NDArray[np.bool_]:
        """T > U."""
        return self.rows.latency_ms > self.bound_ms

    def where(self, mask: NDArray[np.bool_]) -> Reading:
        return Reading(self.rows.where(mask), self.expected_ms[mask], self.bound_ms[mask])

    def scene(self, scene: Scene) -> Reading:
        return self.where(self.rows.mask_of((scene,)))


@dataclass(frozen=True, slots=True)
class Misses:
    """Rows above the bound among `rows`, and the 95% Clopper-Pearson interval of their share."""

    label: str
    above: int
    rows: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """A table, the profile it came from, and every finding of `chunkfit validate` about the two.

    readings: by session, of those that can be read. repeat: None where the fit could not be done again,
    for the reason in `not_repeated`.
    """

    table_path: Path
    profile_path: Path
    table: TableV1
    arrays: TableArrays
    profile: Profile
    findings: tuple[Finding, ...]
    readings: dict[str, Reading]
    repeat: Repeat | None
    not_repeated: str

    @property
    def scenes(self) -> list[Scene]:
        """Those of the table, in the usual order."""
        return [scene for scene in Scene if scene in self.arrays.ladders]


def gather(table_path: Path, profile_path: Path) -> Evidence:
    """Validate the table against its profile, read the held-out rows with it, and fit it again.

    Raises TableFormatError for a file that is no table, UsageError for another profile than the one it was
    fitted on, ProfileFormatError for a profile that cannot be read.
    """
    table, findings = validate_with_profile(table_path, profile_path)
    if table is None:
        raise TableFormatError(findings[0].message)
    sha = file_sha256(profile_path)
    if table.profile_sha256 not in (None, sha):
        raise UsageError(
            f"{profile_path}: not the profile that {table_path} was fitted on (sha256 {sha[:12]}..., the table names "
            f"{str(table.profile_sha256)[:12]}...); a report of other data would say nothing of the table: give "
            "--profile the file it was fitted on, or fit this one"
        )
    profile = Profile.load(profile_path)
    arrays = TableArrays.of(table)
    readings = {}
    for session in HELD_OUT:
        try:
            rows = held_out(profile, session, arrays.ladders)
        except CertificationError:
            continue  # validation has found it
        rows = rows.where(arrays.answers(rows.points))
        readings[session] = Reading(rows, *arrays.read(rows.points))
    repeat, reason = _repeat(table, profile)
    return Evidence(table_path, profile_path, table, arrays, profile, tuple(findings), readings, repeat, reason)


def _repeat(table: TableV1, profile: Profile) -> tuple[Repeat | None, str]:
    try:
        return repeated(table, profile), ""
    except ChunkfitError as error:
        return None, str(error)
    except ModuleNotFoundError as error:
        return None, f"{error.name} is not installed here, which fitter {table.fitter.name} needs"


def misses(evidence: Evidence) -> list[Misses]:
    """Of each session as a whole and by scene, and of the test session by band of expected time."""
    found = []
    for session, reading in evidence.readings.items():
        found.append(_misses(f"{session}, all", reading))
        if 0 < reading.rows.flagged.sum() < len(reading.rows):
            found.append(_misses(f"{session}, not throttled", reading.where(~reading.rows.flagged)))
        found += [_misses(f"{session}, {scene.value}", reading.scene(scene)) for scene in reading.rows.scenes()]
    test = evidence.readings.get("test")
    if test is not None:
        order = np.argsort(test.expected_ms, kind="stable")
        for part in np.array_split(order, BANDS):
            if len(part):
                mask = np.isin(np.arange(len(order)), part)
                low, high = test.expected_ms[part[0]], test.expected_ms[part[-1]]
                found.append(_misses(f"test, E {low:.3g} to {high:.3g} ms", test.where(mask)))
    return found


def _misses(label: str, reading: Reading) -> Misses:
    rows, above = len(reading.rows), int(reading.above.sum())
    low, high = clopper_pearson(above, rows)
    return Misses(label, above, rows, low, high)
