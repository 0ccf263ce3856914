"""Costs by text: `sloweave`, `curved` or the path of a table, and what is done to it.

`table.json:surface=expected,factor=0.9x,noise=3%`. `same` is the source of another cost, as it is.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

from ...tables.cost_table import CostTable
from ...tables.errors import UsageError
from ...tables.units import percentage
from ..workloads.spec import split_options
from .flat_table import from_table
from .formula import CURVED, SLOWEAVE, Formula
from .record import Cost, scaled

FORMULAS: dict[str, Formula] = {"sloweave": SLOWEAVE, "curved": CURVED}
SURFACES = ("bound", "expected")
OPTIONS = ("surface", "factor", "noise")
SAME = "same"


@dataclass(frozen=True, slots=True)
class NamedCost:
    """name: every option, and a table's content hash, so that equal names are equal costs.

    noise: spread of the logarithm of an iteration's time around the cost. device: of the table; None for a formula.
    alone: the same without factor, which is what a request alone would take.
    """

    name: str
    cost: Cost
    alone: Cost
    noise: float
    device: str | None


def believed(text: str) -> NamedCost:
    """What a policy asks; of a table its bound unless the text says otherwise. Raises as `_named`."""
    found = _named(text, "bound", "--cost")
    if found.noise:
        raise UsageError(f"--cost {text!r}: noise is of what an iteration really takes; expected it in --truth")
    return found


def true(text: str, belief: str) -> NamedCost:
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
        # Its content, not its path: a study goes on in another folder, and not on another table.
        sha256 = hashlib.sha256(Path(source).read_bytes()).hexdigest()
        name, done = f"{Path(source).name}@{sha256[:12]}", [f"surface={surface}", *done]
    name += f":{','.join(done)}" if done else ""
    return NamedCost(name, scaled(cost, factor), cost, noise, device)


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


def _table(path: str, option: str) -> CostTable:
    if not Path(path).exists():
        raise UsageError(
            f"{option} {path!r}: neither a formula nor a file; expected {', '.join(FORMULAS)} or the path of a table: "
            "check the path"
        )
    return CostTable.load(path)
