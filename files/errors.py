"""Every error a user can meet, each with the exit code its command ends with.

A message says where, what was found, what was expected and what to do.
Exit codes: 1 the data or a check failed, 2 wrong usage, 3 the environment cannot do it
or the result is inconclusive. (0 is done and 130 interrupted.)
"""

from __future__ import annotations

from collections.abc import Mapping


class ChunkfitError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line ends with."""

    exit_code = 1


class UsageError(ChunkfitError):
    """The caller asked for something that cannot be meant: an unknown name, a negative size."""

    exit_code = 2


class OutOfDomainError(ChunkfitError):
    """The table was asked about a batch outside what was measured."""


class TableFormatError(ChunkfitError):
    """A table file that cannot be read: cut, edited, of another version, too large."""


class RefutedTableError(ChunkfitError):
    """A decision was asked of a table whose verdict is "do not use"."""


class ProfileFormatError(ChunkfitError):
    """A profile or journal that cannot be read or holds impossible rows."""


class LogFormatError(ChunkfitError):
    """Another tool's log that is not of the format it is read as, or a row of it that no iteration can give."""


class CalibrationStateError(ChunkfitError):
    """A saved state of an online calibrator that cannot be read or belongs to another table."""


class RunReportError(ChunkfitError):
    """A run report that cannot be read: cut, edited, of another version."""


class FingerprintMismatchError(ChunkfitError):
    """Two things that were measured on different hardware, models or engines."""


class CertificationError(ChunkfitError):
    """The data cannot carry the promise that was asked for."""


class FitError(ChunkfitError):
    """An estimator that cannot fit the rows it was given."""


class MissingExtraError(ChunkfitError):
    """A command needs an optional dependency that is not installed."""

    exit_code = 3


class DeviceUnavailableError(ChunkfitError):
    """The device asked for is not there or cannot hold the work."""

    exit_code = 3


class DeviceMemoryError(ChunkfitError):
    """One batch did not fit the device's memory; a sweep records the point as skipped and goes on."""

    exit_code = 3


class WorkerError(ChunkfitError):
    """A process or machine that plays a part of the work cannot be reached, has ended, or is of another release."""

    exit_code = 3


class StorageError(ChunkfitError):
    """A path that cannot be written: full disk, missing permission."""

    exit_code = 3


def message_of(error: ChunkfitError) -> dict[str, str]:
    """An error as a process tells it to its parent."""
    return {"error": type(error).__name__, "message": str(error)}


def error_of(message: Mapping[str, str]) -> ChunkfitError:
    """The error that `message_of` made this of; a ChunkfitError for a class of another release."""
    kind = globals().get(message["error"])
    if not (isinstance(kind, type) and issubclass(kind, ChunkfitError)):
        kind = ChunkfitError
    return kind(message["message"])
