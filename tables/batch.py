"""The work of one iteration: `n` decodes with their contexts, and prompt chunks after their prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ..files.errors import UsageError


class Scene(StrEnum):
    """The three kinds of batch; each has its own table (SlidingServe, section 3.2)."""

    DECODE = "decode"
    PREFILL = "prefill"
    MIXED = "mixed"


SCENES = (Scene.DECODE, Scene.PREFILL, Scene.MIXED)


# The axes of a table, in the order of a point's columns n, k, c, u.
AXES = ("decodes", "context_tokens", "chunk_tokens", "prefix_tokens")


class Point(NamedTuple):
    """The totals by which a table reads a batch: n decodes of mean context k, c chunk tokens after prefixes of u."""

    n: int
    k: int
    c: int
    u: int

    @property
    def scene(self) -> Scene:
        if not self.c:
            return Scene.DECODE
        return Scene.MIXED if self.n else Scene.PREFILL


@dataclass(frozen=True, slots=True)
class Chunk:
    """Prompt tokens of one request that one iteration computes.

    Args:
        chunk_tokens: prompt tokens to compute, at least 1.
        prefix_tokens: tokens of the same request that are in the KV cache already.

    Raises:
        UsageError: for an impossible number of tokens.
    """

    chunk_tokens: int
    prefix_tokens: int = 0

    def __post_init__(self) -> None:
        if self.chunk_tokens < 1:
            raise UsageError(f"Chunk: chunk_tokens is {self.chunk_tokens}; expected at least 1 token")
        if self.prefix_tokens < 0:
            raise UsageError(f"Chunk: prefix_tokens is {self.prefix_tokens}; expected 0 or more tokens")


@dataclass(frozen=True, slots=True)
class Batch:
    """The work of one iteration.

    Args:
        decode_contexts: KV tokens that each decode reads, its own token included (at least 1).
        chunks: prompt chunks, in the order they are computed.

    Raises:
        UsageError: for an empty batch or impossible sizes.

    >>> batch = Batch.of(decodes=4, context_tokens=1000, chunk_tokens=256)
    >>> batch.scene.value, batch.batch_tokens, batch.kv_tokens
    ('mixed', 260, 4256)
    """

    decode_contexts: tuple[int, ...] = ()
    chunks: tuple[Chunk, ...] = ()

    def __post_init__(self) -> None:
        if not self.decode_contexts and not self.chunks:
            raise UsageError("Batch: no decodes and no chunks; expected at least one of them")
        if self.decode_contexts and min(self.decode_contexts) < 1:
            raise UsageError(
                f"Batch: a decode context of {min(self.decode_contexts)} tokens; expected at least 1, "
                "since a decode reads its own token"
            )

    @classmethod
    def of(cls, decodes: int = 0, context_tokens: int = 0, chunk_tokens: int = 0, prefix_tokens: int = 0) -> Batch:
        """A batch of equal contexts and at most one chunk.

        Args:
            decodes: n, decoding requests.
            context_tokens: k, KV tokens that each decode reads.
            chunk_tokens: c, prompt tokens to compute; 0 for no chunk.
            prefix_tokens: u, tokens before the chunk.

        Raises:
            UsageError: for an empty batch or impossible sizes.
        """
        if decodes < 0 or chunk_tokens < 0:
            raise UsageError(f"Batch.of: decodes {decodes}, chunk_tokens {chunk_tokens}; expected 0 or more of each")
        chunks = (Chunk(chunk_tokens, prefix_tokens),) if chunk_tokens else ()
        return cls((context_tokens,) * decodes, chunks)

    @classmethod
    def with_chunks(cls, decode_contexts: Sequence[int], chunks: Sequence[tuple[int, int]]) -> Batch:
        """A batch from plain sequences.

        Args:
            decode_contexts: KV tokens that each decode reads.
            chunks: pairs (chunk_tokens, prefix_tokens).

        Raises:
            UsageError: for an empty batch or impossible sizes.
        """
        return cls(tuple(decode_contexts), tuple(Chunk(c, u) for c, u in chunks))

    @property
    def scene(self) -> Scene:
        return self.point().scene

    @property
    def decodes(self) -> int:
        """n"""
        return len(self.decode_contexts)

    @property
    def context_tokens(self) -> int:
        """k: mean context of the decodes, rounded up to a whole token; 0 without decodes.

        Rounded up so that a longer context never lowers it (a rounded mean would still be
        monotone, but would under-state the KV read by up to half a token per decode).
        """
        return self.point().k

    @property
    def longest_context(self) -> int:
        """Largest context of a decode; 0 without decodes."""
        return max(self.decode_contexts, default=0)

    @property
    def chunk_tokens(self) -> int:
        """c: prompt tokens over all chunks."""
        return self.point().c

    @property
    def prefix_tokens(self) -> int:
        """u of the one chunk that bounds all of them: the sum of the prefixes.

        One chunk of sum(c_i) after sum(u_i) reads as many KV tokens as the chunks together and
        does at least their attention work, since
        sum c_i (u_i + c_i / 2) <= c (u + c / 2); and u stays fixed while a chunk grows.
        """
        return self.point().u

    @property
    def batch_tokens(self) -> int:
        """n + c: the rows of every matrix product of the iteration."""
        return self.decodes + self.chunk_tokens

    @property
    def kv_tokens(self) -> int:
        """KV tokens held by the batch once it has run: decode contexts, prefixes and chunks."""
        return sum(self.decode_contexts) + self.prefix_tokens + self.chunk_tokens

    def point(self) -> Point:
        """(n, k, c, u) as the table reads it. The properties say what each is."""
        contexts = self.decode_contexts
        n, c, u = len(contexts), 0, 0
        for chunk in self.chunks:
            c += chunk.chunk_tokens
            u += chunk.prefix_tokens
        return Point(n, -(-sum(contexts) // n) if n else 0, c, u)
