"""Random valid tables: any non-decreasing parts, closed as the fitters close them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chunkfit.tables.arrays import TableArrays
from chunkfit.tables.batch import SCENES, Scene
from chunkfit.tables.closure import monotone_majorant, running_max
from chunkfit.tables.cost_table import CostTable
from chunkfit.tables.domain import Domain
from chunkfit.tables.fingerprint import Fingerprint
from chunkfit.tables.grid import Axes, Ladder, Surface
from chunkfit.tables.schema_v1 import FactorsV1, FitterV1
from chunkfit.tables.support import Support


def table_of(arrays: TableArrays, **changes) -> CostTable:
    """A table of arrays, with nothing certified unless `changes` says so."""
    fields = {
        "created_by": "test",
        "fingerprint": Fingerprint(device_kind="synthetic", device_name="random", engine="none"),
        "aggregation": "iteration",
        "profile_sha256": None,
        "observed": {},
        "fitter": FitterV1(name="random", options={}, coefficients={}),
        "margin": [],
        "factors": FactorsV1(unequal_contexts=None, several_chunks=None, session_drift=None),
        "verdict": None,
        "certificate": None,
        "price": [],
        "test": None,
        "gap": None,
    }
    return CostTable.of(arrays, **(fields | changes))


def knots(rng, first: int, most: int, count: int) -> tuple[int, ...]:
    """`first` and up to `count` further strictly increasing integers up to `most`."""
    inner = rng.integers(first, most + 1, size=count)
    return tuple(sorted({first, *inner.tolist()}))


def random_arrays(seed: int, max_n: int = 12, max_k: int = 60, max_u: int = 40, max_c: int = 48) -> TableArrays:
    """Ragged axes (also of one knot), jumps, flat stretches, seams that need lifting."""
    rng = np.random.default_rng(seed)
    axes = Axes(
        decodes=knots(rng, 1, max_n, int(rng.integers(0, 4))),
        context_tokens=knots(rng, int(rng.integers(1, 9)), max_k, int(rng.integers(0, 4))),
        prefix_tokens=knots(rng, 0, max_u, int(rng.integers(0, 4))),
        chunk_tokens=knots(rng, 1, max_c, int(rng.integers(0, 5))),
    )
    ladders, expected, bound, measured = {}, {}, {}, {}
    top = axes.decodes[-1] + axes.chunk_tokens[-1]
    scale = float(rng.choice([20.0, 300.0, 40000.0]))

    def rising(shape):
        steps = rng.integers(0, int(scale), size=shape) * (rng.random(shape) < 0.6)
        return running_max(steps.astype(np.int64))

    for scene in SCENES:
        ladders[scene] = Ladder(knots(rng, 1, top, int(rng.integers(0, 9))), str(rng.choice(["linear", "up"])))
        count = len(ladders[scene].batch_tokens)
        expected[scene] = Surface(rising(count), rising(axes.shape(scene)))
        # Not ordered on purpose: the closure has to make a bound of it.
        bound[scene] = Surface(
            rng.integers(0, int(scale), size=count), rng.integers(0, int(scale), size=axes.shape(scene))
        )
        measured[scene] = rng.random(axes.shape(scene)) < 0.7
    bounds = monotone_majorant(axes, ladders, expected, bound)
    return TableArrays(axes, ladders, expected, bounds, measured, random_domain(axes, np.random.default_rng(seed + 1)))


def random_domain(axes: Axes, rng) -> Domain:
    """The axes' limits, cut by token budget, KV capacity and context length."""
    n, k, u, c = axes.decodes[-1], axes.context_tokens[-1], axes.prefix_tokens[-1], axes.chunk_tokens[-1]
    return Domain(
        max_decodes=n,
        max_context_tokens=k,
        max_chunk_tokens=c,
        max_prefix_tokens=u,
        max_batch_tokens=int(rng.integers(max(n, c), n + c + 1)),
        kv_tokens=int(rng.integers(1, n * k + c + u + 1)),
        context_length=int(rng.integers(1, max(k, u + c) + 1)),
    )


def random_support(domain: Domain, rng) -> Support:
    """Boxes of any size, some of them measured; hardly any, in some tables."""

    def edges(first: int, last: int) -> tuple[int, ...]:
        inner = rng.integers(first, last + 1, size=int(rng.integers(0, 4)))
        return tuple(sorted({last, *inner.tolist()}))

    lows = {"decodes": 1, "context_tokens": 1, "chunk_tokens": 1, "prefix_tokens": 0}
    empty = Support({axis: edges(low, getattr(domain, f"max_{axis}")) for axis, low in lows.items()}, {})
    share = float(rng.choice([0.1, 0.5, 0.9]))
    return Support(empty.edges, {scene: rng.random(empty.shape(scene)) < share for scene in SCENES})


def random_table(seed: int, holes: bool = False) -> CostTable:
    """holes: whether some boxes of the domain were not measured."""
    arrays = random_arrays(seed)
    rng = np.random.default_rng(seed + 2)
    if holes:
        arrays = replace(arrays, support=random_support(arrays.domain, np.random.default_rng(seed + 3)))
    # 1.37 is no multiple of 1/4096.
    unequal, several = (None if f == 0 else float(f) for f in rng.choice([0, 1, 1.0625, 1.37, 3], 2))
    factors = FactorsV1(unequal_contexts=unequal, several_chunks=several, session_drift=None)
    return table_of(arrays, factors=factors)


__all__ = ["Scene", "random_arrays", "random_domain", "random_table", "table_of"]
