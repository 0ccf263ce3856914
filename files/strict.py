"""Models of files: closed and frozen, their reading, and what validation says with the JSON path of each finding."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import ChunkfitError
from .writing import write_atomically

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Model = TypeVar("Model", bound=BaseModel)


class Frozen(BaseModel):
    """An immutable record. Unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Strict(Frozen):
    """A record whose numbers are strict: an integer takes no float, nothing takes NaN or infinity."""

    model_config = ConfigDict(allow_inf_nan=False, strict=True)


def json_path(path: Sequence[str | int]) -> str:
    """`('scenes', 'mixed', 3)` as `$.scenes.mixed[3]`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def findings(error: ValidationError, most: int = 1) -> str:
    """The first findings of a validation, `most` of them: path, message and the value found; then how many more."""
    listed = []
    for item in error.errors(include_url=False)[:most]:
        if item["type"] == "value_error" and not item["loc"]:  # a check of the whole, which names its path itself
            listed.append(str(item["ctx"]["error"]))
            continue
        value = "" if isinstance(item["input"], dict | list | bytes) else f" (found {repr(item['input'])[:80]})"
        listed.append(f"{json_path(item['loc'])}: {item['msg']}{value}")
    more = error.error_count() - len(listed)
    return "; ".join(listed) + (f"; and {more} more" if more > 0 else "")


def unreadable(path: str | PathLike[str], error: OSError, expected: str) -> str:
    """The message for a file that cannot be read."""
    return f"{path}: cannot be read ({error.strerror or error}); expected {expected}: check the path"


def read_model(
    path: str | PathLike[str], model: type[Model], raises: type[ChunkfitError], expected: str, instead: str
) -> Model:
    """The one JSON object of a file as a model. expected: what the file should be. instead: what to do without it.

    Raises `raises` for a file that cannot be read, or that is not exactly of the model.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise raises(unreadable(path, error, expected)) from error
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise raises(f"{path}: {findings(error)}; expected {expected}: {instead}") from error


def write_model(model: BaseModel, path: str | PathLike[str]) -> None:
    """Write a model as JSON, whole or not at all. Raises StorageError."""
    write_atomically(path, (model.model_dump_json(indent=1) + "\n").encode())
