"""Compilation by numba where it is installed; without it the same functions run as plain Python, much slower.

Time, tokens and pages are whole numbers, and fractions are only added and multiplied, so both give the same bytes.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..tables import largest_chunk, lookup

try:
    import numba
    from numba.extending import overload, register_jitable
except ImportError:
    numba = None

Function = TypeVar("Function", bound=Callable[..., object])

COMPILES: bool = numba is not None and not numba.config.DISABLE_JIT


def slower_note() -> str | None:
    """A note for users whose policies run as plain Python; None where they are compiled."""
    if COMPILES:
        return None
    if numba is None:
        return "numba is not installed, so policies run as plain Python, much slower: pip install 'chunkfit[sim]'"
    return "NUMBA_DISABLE_JIT is set, so policies run as plain Python, much slower"


def sources_digest() -> str:
    """sha256 of every source that is compiled: this folder's and the look-up's."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in (*sorted(here.rglob("*.py")), Path(lookup.__file__), Path(largest_chunk.__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_DIGEST = sources_digest() if COMPILES else ""


def compiled(function: Function) -> Function:
    """`function` compiled at its first call and kept on disk for the next process.

    numba's cache checks the file of a function, not the files of the functions that it calls: after a change of a
    policy the simulator would run the old one. Therefore the digest of all sources is part of the cache's version. The
    version is compared before anything is unpickled: an index of another release names modules that may be gone.
    Without a writable folder nothing is kept.
    """
    if not COMPILES:
        return function
    dispatcher: Function
    try:
        dispatcher = numba.njit(cache=True)(function)
    except RuntimeError:
        dispatcher = numba.njit(function)
        return dispatcher
    file = dispatcher._cache._cache_file  # type: ignore[attr-defined]
    file._version = f"{file._version} {_DIGEST}"
    return dispatcher


if COMPILES:
    for _plain in (
        lookup.raised,
        lookup.locate,
        lookup.fold,
        lookup.inside,
        lookup.surface_ticks,
        lookup.boxes_above,
        lookup.ticks,
        lookup.bound_ticks,
        largest_chunk.largest_fitting,
        largest_chunk.largest_on_surface,
        largest_chunk.largest_by_order,
        largest_chunk.largest_of_equal,
        largest_chunk.largest_chunk,
    ):
        register_jitable(_plain)

    @overload(bisect.bisect_left)
    def _bisect_left(a, x, lo, hi):  # type: ignore[no-untyped-def]
        """The standard library's, for arrays."""

        def search(a, x, lo, hi):  # type: ignore[no-untyped-def]
            while lo < hi:
                middle = (lo + hi) >> 1
                if a[middle] < x:
                    lo = middle + 1
                else:
                    hi = middle
            return lo

        return search

    @overload(bisect.bisect_right)
    def _bisect_right(a, x, lo, hi):  # type: ignore[no-untyped-def]
        """The standard library's, for arrays."""

        def search(a, x, lo, hi):  # type: ignore[no-untyped-def]
            while lo < hi:
                middle = (lo + hi) >> 1
                if x < a[middle]:
                    hi = middle
                else:
                    lo = middle + 1
            return lo

        return search
