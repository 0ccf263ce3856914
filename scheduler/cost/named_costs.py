"""Costs by text: `sloweave`, `curved` or the path of a table, and what is done to it.

`table.json:surface=expected,factor=0.9x,noise=3%`. `same` is the source of another cost, as it is. residuals=FILE: each
iteration is off by a draw from a log's engine_ms / expected_ms, as `chunkfit live` writes it, instead of noise.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

from ...files.errors import LogFormatError, UsageError
from ...files.record import LeftOut
from ...files.record_files import records_of
from ...files.units import percentage
from ...tables.cost_table import CostTable
from ..workloads.spec import split_options
from .factors import EXACT, Factors, noise_factors, residual_factors
from .flat_table import from_table
from .formula import CURVED, SLOWEAVE, Formula
from .record import Cost, scaled

FORMULAS: dict[str, Formula] = {"sloweave": SLOWEAVE, "curved": CURVED}
SURFACES = ("bound", "expected")
OPTIONS = ("surface", "factor", "noise", "residuals")
SAME = "same"


@dataclass(frozen=True, slots=True)
class NamedCost:
    """name: every option, and a table's content hash, so that equal names are equal costs.

    alone: the same without factor, which is what a request alone would take. noise: spread of the logarithm of an
    iteration's time around the cost. ratios: recorded ones of measured to expected time, or none. device: of the table;
    None for a formula.
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


def policy_cost(text: str) -> NamedCost:
    """What a policy asks; of a table its bound unless the text says otherwise. Raises as `_named`."""
    found = _named(text, "bound", "--cost")
    if found.noise or found.ratios:
        raise UsageError(
            f"--cost {text!r}: noise and residuals are of what iterations really take: say them in --truth"
        )
    return found


def true_cost(text: str, belief: str) -> NamedCost:
    """What an iteration takes: of a table what it expects unless the text says otherwise. Raises as `_named`."""
    source, _, options = split_cost(text)
    if source == SAME:
        text = split_cost(belief)[0] + (f":{options}" if options else "")
    return _named(text, "expected", "--truth")


def _named(text: str, surface: str, option: str) -> NamedCost:
    """Raises UsageError naming the option, and TableFormatError for a file that is no table."""
    source, said, _ = split_cost(text)
    for name in said:
        if name not in OPTIONS:
            raise UsageError(f"{option} {text!r}: {name!r} is unknown; expected {', '.join(OPTIONS)}")
    factor = _factor(said.get("factor", "1x"), f"{option} {text!r}: factor")
    noise = percentage(said.get("noise", "0%"), f"{option} {text!r}: noise")
    done = [f"factor={factor:g}x"] if factor != 1 else []
    done += [f"noise={100 * noise:g}%"] if noise else []
    ratios: tuple[float, ...] = ()
    if "residuals" in said:
        if noise:
            raise UsageError(f"{option} {text!r}: noise and residuals say the same thing; expected one of them")
        ratios = _ratios(said["residuals"])
        done.append(f"residuals={_content_name(said['residuals'])}")
    device = None
    if source in FORMULAS:
        if "surface" in said:
            raise UsageError(f"{option} {text!r}: a formula has one surface; leave surface out")
        cost, name = FORMULAS[source].cost(), source
    else:
        surface = said.get("surface", surface)
        if surface not in SURFACES:
            raise UsageError(f"{option} {text!r}: surface {surface!r}; expected {' or '.join(SURFACES)}")
        table = _table(source, option)
        device = table.fingerprint.title()
        cost = from_table(table, "bound" if surface == "bound" else "expected")
        name, done = _content_name(source), [f"surface={surface}", *done]
    name += f":{','.join(done)}" if done else ""
    return NamedCost(name, scaled(cost, factor), cost, noise, ratios, device)


def split_cost(text: str) -> tuple[str, dict[str, str], str]:
    """Source, options, and these as one text. A colon in a path is one that no option follows."""
    source, colon, rest = text.rpartition(":")
    if not colon or "=" not in rest:
        return text, {}, ""
    return source, split_options(rest, f"cost {text!r}", "table.json:factor=0.9x"), rest


def _factor(text: str, where: str) -> float:
    try:
        value = float(text.removesuffix("x")) if text.endswith("x") else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value <= 100:
        raise UsageError(f"{where} {text!r}; expected a factor up to 100x with its x, such as 0.9x")
    return value


def _content_name(path: str) -> str:
    """By its content, not its path: a study goes on in another folder, and not on another table."""
    return f"{Path(path).name}@{hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]}"


def _ratios(path: str) -> tuple[float, ...]:
    """Raises UsageError for a file that cannot be opened, LogFormatError for rows that are no measurements."""
    rows = records_of(path, LeftOut())
    found = tuple(
        row.duration_ms("engine_ms", "ms") / row.duration_ms("expected_ms", "ms")
        for row in rows
        if row.says("expected_ms")  # a batch outside of the table has none
    )
    if not found:
        raise LogFormatError(f"{path}: no row says expected_ms; expected a log with engine_ms and expected_ms")
    return found


def _table(path: str, option: str) -> CostTable:
    if not Path(path).exists():
        raise UsageError(
            f"{option} {path!r}: neither a formula nor a file; expected {', '.join(FORMULAS)} or the path of a table: "
            "check the path"
        )
    return CostTable.load(path)
