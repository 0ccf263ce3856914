"""A cost table's surfaces as one array of nodes, and the reading of it."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...tables.cost_table import CostTable
from ...tables.lookup import ROUND_UP, WEIGHT_BITS, WEIGHT_ONE, fold_nku, largest_fitting, locate
from ..compiled import compiled
from .record import LIMITS, OUTSIDE, SCENE_PARTS, TABLE, Cost, empty_header


def from_table(table: CostTable, surface: Literal["expected", "bound"] = "bound") -> Cost:
    """The table's own integers. The factors of unequal contexts and of several chunks belong to the bound."""
    header = empty_header(TABLE)
    arrays, domain = table.arrays, table.domain
    for name in LIMITS:
        header[name] = getattr(domain, name)
    if surface == "bound":
        for name, factor in (
            ("unequal", table.document.factors.unequal_contexts),
            ("several", table.document.factors.several_chunks),
        ):
            header[name] = WEIGHT_ONE if factor is None else math.ceil(factor * WEIGHT_ONE)
    parts: list[NDArray[np.int64]] = []
    at = 0

    def put(part: NDArray[np.int64]) -> int:
        nonlocal at
        parts.append(part)
        at += len(part)
        return at - len(part)

    for axis, knots in (
        ("decodes", arrays.axes.decodes),
        ("context", arrays.axes.context_tokens),
        ("prefix", arrays.axes.prefix_tokens),
        ("chunk", arrays.axes.chunk_tokens),
    ):
        header[f"{axis}_start"] = put(np.array(knots, np.int64))
        header[f"{axis}_knots"] = len(knots)
    for part in SCENE_PARTS:
        header[part] = OUTSIDE
    surfaces = arrays.bound if surface == "bound" else arrays.expected
    top = domain.max_decodes + domain.max_chunk_tokens
    for scene, values in surfaces.items():
        header[f"{scene.value}_ladder"] = put(arrays.ladders[scene].dense(values.ladder, top))
        header[f"{scene.value}_base"] = put(values.base.ravel())
    return Cost(header, np.concatenate(parts).astype(np.int64))


# `nodes` is an int64 array; Any, since the look-up is written for sequences of whole numbers.
@compiled
def _axis(nodes: Any, start: int, knots: int) -> Any:
    return nodes[start : start + knots]


@compiled
def table_ticks(header: Any, nodes: Any, n: int, k: int, c: int, u: int) -> int:
    """Ticks of a point inside the domain as `CostTable` reads it; OUTSIDE where its scene was not measured."""
    j, wn, m, wk = 0, 0, 0, 0
    if n:
        j, wn = locate(_axis(nodes, header["decodes_start"], header["decodes_knots"]), n)
        m, wk = locate(_axis(nodes, header["context_start"], header["context_knots"]), k)
    if not c:
        if header["decode_base"] == OUTSIDE:
            return OUTSIDE
        dn = header["context_knots"]
        value = fold_nku(nodes, header["decode_base"] + j * dn + m, dn, 1, 0, wn, wk, 0)
        return int(nodes[header["decode_ladder"] + n] + value)
    i, wu = locate(_axis(nodes, header["prefix_start"], header["prefix_knots"]), u)
    h, wc = locate(_axis(nodes, header["chunk_start"], header["chunk_knots"]), c)
    du = header["chunk_knots"]
    dk = du * header["prefix_knots"]
    dn = dk * header["context_knots"]
    base = header["mixed_base"] if n else header["prefill_base"]
    ladder = header["mixed_ladder"] if n else header["prefill_ladder"]
    if base == OUTSIDE:
        return OUTSIDE
    at = base + j * dn + m * dk + i * du + h
    value = fold_nku(nodes, at, dn, dk, du, wn, wk, wu)
    if wc:
        rise = fold_nku(nodes, at + 1, dn, dk, du, wn, wk, wu) - value
        value += (rise * wc + ROUND_UP) >> WEIGHT_BITS
    return int(nodes[ladder + n + c] + value)


@compiled
def largest_by_table(
    header: Any, nodes: Any, n: int, k: int, u: int, limit: int, top: int, align: int, whole: int
) -> int:
    """`tables.lookup.largest_fitting` at the state's corner; OUTSIDE where the scene was not measured."""
    base = header["mixed_base"] if n else header["prefill_base"]
    ladder = header["mixed_ladder"] if n else header["prefill_ladder"]
    if base == OUTSIDE:
        return OUTSIDE
    j, wn, m, wk = 0, 0, 0, 0
    if n:
        j, wn = locate(_axis(nodes, header["decodes_start"], header["decodes_knots"]), n)
        m, wk = locate(_axis(nodes, header["context_start"], header["context_knots"]), k)
    i, wu = locate(_axis(nodes, header["prefix_start"], header["prefix_knots"]), u)
    du = header["chunk_knots"]
    dk = du * header["prefix_knots"]
    dn = dk * header["context_knots"]
    chunks = _axis(nodes, header["chunk_start"], header["chunk_knots"])
    at = base + j * dn + m * dk + i * du
    return largest_fitting(
        nodes[ladder:],
        nodes,
        chunks,
        n,
        at,
        dn,
        dk,
        du,
        wn,
        wk,
        wu,
        limit,
        top,
        align,
        whole,
    )
