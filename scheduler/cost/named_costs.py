"""Costs by text: `sloweave`, `curved` or the path of a table, with options: `table.json:surface=expected,factor=0.9x`.

The true cost may be `same`: the source of the policy's cost without its options. `noise=3%` draws a factor for each
iteration; `residuals=FILE` draws it from the ratios engine_ms / expected_ms of a log, such as `chunkfit live` writes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ...files.errors import LogFormatError, UsageError
from ...files.records import SkippedRows, records_of
from ...files.specs import OptionsModel, join, read_options, split_options
from ...files.units import Share, Text, choice, factor
from ...tables.cost_table import CostTable
from ...tables.verdict import require_usable
from .cost_record import EXACT, Cost, Factors, from_table, noise_factors, residual_factors, scaled
from .formula import CURVED, SLOWEAVE, Formula

FORMULAS: dict[str, Formula] = {"sloweave": SLOWEAVE, "curved": CURVED}
SAME = "same"
SurfaceName = Annotated[Literal["bound", "expected"], choice("bound", "expected")]
CostFactor = Annotated[float, factor(most=100)]


class CostOptions(OptionsModel):
    surface: SurfaceName | None = Field(None, description="of a table")
    factor: CostFactor = Field(1.0, description="on every answer")
    noise: Share = Field(0.0, description="spread of an iteration's time around the cost")
    residuals: Text | None = Field(None, description="a log of recorded times")


@dataclass(frozen=True, slots=True)
class NamedCost:
    """name: every option, and a table's content hash, so equal names are equal costs.

    alone: the cost without its factor, for the time of a request alone. noise: standard deviation of the logarithm of
    an iteration's time around the cost. ratios: recorded ratios of measured to expected time, or none. device: of the
    table; None for a formula.
    """

    name: str
    cost: Cost
    alone: Cost
    noise: float
    ratios: tuple[float, ...]
    device: str | None

    def factors(self, seed: int) -> Factors:
        """How iterations differ from the cost."""
        if self.ratios:
            return residual_factors(seed, self.ratios)
        return noise_factors(seed, self.noise) if self.noise else EXACT


def policy_cost(text: str, allow_refuted: bool = False) -> NamedCost:
    """The cost that policies ask: of a table its bound unless the text says otherwise. Raises as `_named`."""
    cost = _named(text, "bound", "--cost", allow_refuted)
    if cost.noise or cost.ratios:
        raise UsageError(f"--cost {text!r}: noise and residuals belong to the true times: give them in --truth")
    return cost


def true_cost(text: str, policy_text: str, allow_refuted: bool = False) -> NamedCost:
    """The cost of iterations: of a table its expected time unless the text says otherwise. Raises as `_named`."""
    source, texts = split_cost(text)
    if source == SAME:
        text = join(split_cost(policy_text)[0], texts)
    return _named(text, "expected", "--truth", allow_refuted)


def _named(text: str, surface: Literal["bound", "expected"], option: str, allow_refuted: bool) -> NamedCost:
    """Raises UsageError naming the option, TableFormatError for a file that is no table, RefutedTableError."""
    source, texts = split_cost(text)
    where = f"{option} {text!r}"
    options = read_options(CostOptions, texts, where)
    if options.noise and options.residuals:
        raise UsageError(f"{where}: noise and residuals both set the iterations' factors; expected one of them")
    ratios = _ratios(options.residuals) if options.residuals else ()
    content = {"residuals": options.residuals and _content_name(options.residuals)}
    if source in FORMULAS:
        if options.surface:
            raise UsageError(f"{where}: a formula has one surface; leave surface out")
        cost, name, device = FORMULAS[source].cost(), source, None
    else:
        table = _table(source, option)
        require_usable(table.document.verdict, source, allow_refuted)
        surface = options.surface or surface
        content["surface"] = surface
        cost, name, device = (
            from_table(table, options.surface or surface),
            _content_name(source),
            table.fingerprint.title(),
        )
    name = join(name, options.model_copy(update=content).texts())
    return NamedCost(name, scaled(cost, options.factor), cost, options.noise, ratios, device)


def split_cost(text: str) -> tuple[str, dict[str, str]]:
    """Source and option texts. A colon that no option follows is part of a path."""
    source, colon, rest = text.rpartition(":")
    if not colon or "=" not in rest:
        return text, {}
    return source, split_options(rest, f"cost {text!r}", "table.json:factor=0.9x")


def _content_name(path: str) -> str:
    """By its content, not its path: a study goes on in another folder, and not on another table."""
    return f"{Path(path).name}@{hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]}"


def _ratios(path: str) -> tuple[float, ...]:
    """Raises UsageError for a file that cannot be opened, LogFormatError for rows that are no measurements."""
    rows = records_of(path, SkippedRows())
    ratios = tuple(
        row.duration_ms("engine_ms", "ms") / row.duration_ms("expected_ms", "ms")
        for row in rows
        if row.says("expected_ms")  # a batch outside of the table has none
    )
    if not ratios:
        raise LogFormatError(f"{path}: no row says expected_ms; expected a log with engine_ms and expected_ms")
    return ratios


def _table(path: str, option: str) -> CostTable:
    if not Path(path).exists():
        raise UsageError(
            f"{option} {path!r}: neither a formula nor a file; expected {', '.join(FORMULAS)} or the path of a table: "
            "check the path"
        )
    return CostTable.load(path)
