"""The profile: one row per timed iteration and what is known about how it was measured."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..files.errors import UsageError
from ..files.writing import write_atomically
from ..tables.batch import AXES
from ..tables.fingerprint import require_same
from .columns import COLUMNS, Columns, check_rows
from .condition import judge
from .meta import ProfileMeta, SessionMeta

COPIED_SHARE = 0.2  # of a profile's latencies that another holds too


@dataclass(frozen=True, slots=True)
class Profile:
    """meta and columns (`columns.COLUMNS`: name -> array of one length), checked when made.

    source: the file or device that messages name.
    Raises ProfileFormatError for rows that no measurement can give (see `columns.check_rows`).
    """

    meta: ProfileMeta
    columns: Columns
    source: str = "profile"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", check_rows(self.columns, self.source))

    def __len__(self) -> int:
        return len(self.columns["latency_ms"])

    def points(self) -> NDArray[np.int64]:
        """(rows, 4): n, k, c, u of every row."""
        return np.column_stack([self.columns[name] for name in AXES])

    def select(self, session: str | None = None, role: str | None = "point") -> Profile:
        """The rows of one session and role (None: any), with the same meta."""
        mask = np.ones(len(self), dtype=np.bool_)
        if session is not None:
            mask &= self.columns["session"] == session
        if role is not None:
            mask &= self.columns["role"] == role
        return self._with_columns({name: column[mask] for name, column in self.columns.items()})

    def _with_columns(self, columns: Columns) -> Profile:
        """The same profile with some of its rows, which were checked when it was made."""
        part = object.__new__(Profile)
        for name, value in (("meta", self.meta), ("columns", columns), ("source", self.source)):
            object.__setattr__(part, name, value)
        return part

    def save(self, path: str | Path) -> str:
        """Write Parquet by rename. Returns the sha256 of the file. Raises StorageError.

        The same content gives the same bytes with one pyarrow version.
        """
        from .parquet import to_bytes

        data = to_bytes(self.meta, self.columns)
        write_atomically(path, data)
        return hashlib.sha256(data).hexdigest()

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Read a file that `save` wrote.

        Raises UsageError when it cannot be opened, ProfileFormatError when it is not Parquet, has no
        chunkfit metadata, is of another version, lacks a column or holds an impossible row.
        """
        from .parquet import from_bytes

        meta, columns = from_bytes(_read(path), str(path))
        return cls(meta, columns, str(path))


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or error}); expected a profile written by "
            "`chunkfit profile`: check the path"
        ) from error


def file_sha256(path: str | Path) -> str:
    """sha256 of a file's bytes, in hex. Raises UsageError when it cannot be read."""
    return hashlib.sha256(_read(path)).hexdigest()


def concat(profiles: Sequence[Profile]) -> Profile:
    """One profile of several of the same device, model, domain and aggregation, rows in the given order.

    Sessions of the same name become one; point ids and the order within a session are shifted past those
    of the earlier profiles. Raises FingerprintMismatchError naming the two sources that differ,
    UsageError for other differences.
    """
    if not profiles:
        raise UsageError("concat: no profiles; expected at least one")
    first = profiles[0]
    for profile in profiles:
        if profile.meta.imported is not None and len(profiles) > 1:
            raise UsageError(
                f"{profile.source}: imported from {profile.meta.imported.file}; expected measured profiles to join: "
                "join the logs and ingest them as one"
            )
    parts: list[Columns] = []
    joined: list[int] = []
    id_shift = order_shift = 0
    for profile in profiles:
        pair = f"{first.source} and {profile.source}"
        require_same(first.meta.fingerprint, profile.meta.fingerprint, pair)
        for name in ("aggregation", "domain", "step_totals", "traffic"):
            here, there = getattr(first.meta, name), getattr(profile.meta, name)
            if here != there:
                raise UsageError(f"{pair}: {name} is {here} and {there}; expected one and the same")
        ids, order = profile.columns["point_id"], profile.columns["order"]
        parts.append({**profile.columns, "point_id": ids + id_shift, "order": order + order_shift})
        joined += [id_shift, *(id_shift + first_id for first_id in profile.meta.joined)]
        id_shift += int(ids.max(initial=-1)) + 1
        order_shift += int(order.max(initial=-1)) + 1
    _require_different(profiles)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    shas = [profile.meta.plan_sha256 for profile in profiles]
    meta = first.meta.model_copy(
        update={
            "sessions": _joined_sessions(profiles, columns),
            "skipped": tuple(point for profile in profiles for point in profile.meta.skipped),
            "rounds": tuple(one for profile in profiles for one in profile.meta.rounds),
            "joined": tuple(joined[1:]),
            "plan_sha256": shas[0] if len(set(shas)) == 1 else hashlib.sha256("".join(shas).encode()).hexdigest(),
        }
    )
    return Profile(meta, columns, " + ".join(profile.source for profile in profiles))


def _require_different(profiles: Sequence[Profile]) -> None:
    """Raises UsageError where most latencies of one profile stand in another: one would certify the other.

    Measured times have so many digits that different measurements hardly ever share one.
    """
    for index, profile in enumerate(profiles):
        for other in profiles[:index]:
            copied = np.isin(profile.columns["latency_ms"], other.columns["latency_ms"])
            if len(copied) and copied.mean() > COPIED_SHARE:
                raise UsageError(
                    f"{other.source} and {profile.source}: {copied.sum():,} of {len(copied):,} rows hold the same "
                    "measurements; expected others, since copies are no further evidence: give each profile once"
                )


def _joined_sessions(profiles: Sequence[Profile], columns: Columns) -> dict[str, SessionMeta]:
    joined: dict[str, SessionMeta] = {}
    for name in dict.fromkeys(name for profile in profiles for name in profile.meta.sessions):
        parts = [profile.meta.sessions[name] for profile in profiles if name in profile.meta.sessions]
        sentinel = (columns["session"] == name) & (columns["role"] == "sentinel")
        joined[name] = SessionMeta(
            planned=sum(part.planned for part in parts),
            points=sum(part.points for part in parts),
            rows=sum(part.rows for part in parts),
            flagged=sum(part.flagged for part in parts),
            skipped=sum(part.skipped for part in parts),
            seconds=sum(part.seconds for part in parts),
            started_at=parts[0].started_at,
            sentinel=judge(columns["latency_ms"][sentinel], columns["order"][sentinel]),
        )
    return joined
