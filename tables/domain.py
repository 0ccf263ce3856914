"""The batches that a profile covers. A table refuses everything outside."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..files.errors import OutOfDomainError
from ..files.strict import Strict
from .batch import Batch

Tokens = Annotated[int, Field(ge=1)]


class Domain(Strict):
    """Limits of the measured batches (n, k, c, u), all inclusive.

    Attributes:
        max_decodes: largest n, decoding requests.
        max_context_tokens: largest k, mean context of the decodes.
        max_chunk_tokens: largest c, prompt tokens of all chunks.
        max_prefix_tokens: largest u, sum of the chunks' prefixes.
        max_batch_tokens: largest n + c, the engine's token budget.
        kv_tokens: largest n k + c + u, the KV capacity.
        context_length: largest u + c of one request, the model's limit.
    """

    max_decodes: Annotated[int, Field(ge=1, description="largest n, decoding requests")]
    max_context_tokens: Annotated[Tokens, Field(description="largest k, mean context of the decodes")]
    max_chunk_tokens: Annotated[Tokens, Field(description="largest c, prompt tokens of all chunks")]
    max_prefix_tokens: Annotated[int, Field(ge=0, description="largest u, sum of the chunks' prefixes")]
    max_batch_tokens: Annotated[Tokens, Field(description="largest n + c, the engine's token budget")]
    kv_tokens: Annotated[Tokens, Field(description="KV capacity: n k + c + u at most")]
    context_length: Annotated[Tokens, Field(description="the model's limit for one request: u_i + c_i")]

    def contains(self, points: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which points lie inside.

        The limit of one request (`context_length`) is about single chunks and contexts, which totals do not show:
        `refusal_of` checks it.

        Args:
            points: (n, k, c, u) of each, shape (points, 4), int64.

        Returns:
            A mask of shape (points,).
        """
        mask = np.ones(len(points), dtype=np.bool_)
        for _, values, limit in self._totals(*points.T):
            mask &= values <= limit
        return mask

    def refusal(self, n: int, k: int, c: int, u: int) -> str | None:
        """Why `contains` says no to the point, or None. Names the first limit that is broken."""
        for name, value, limit in self._totals(n, k, c, u):
            if value > limit:
                return f"{name} = {value:,} is above the measured limit {limit:,}"
        return None

    def _totals(self, n: Any, k: Any, c: Any, u: Any) -> tuple[tuple[str, Any, int], ...]:
        """(name, value, limit) of every limit; values are numbers or arrays, as n, k, c and u are."""
        return (
            ("decodes n", n, self.max_decodes),
            ("mean context k", k, self.max_context_tokens),
            ("chunk tokens c", c, self.max_chunk_tokens),
            ("prefix tokens u", u, self.max_prefix_tokens),
            ("batch tokens n + c", n + c, self.max_batch_tokens),
            ("KV tokens n k + c + u", n * k + c + u, self.kv_tokens),
        )

    def refusal_of(self, batch: Batch) -> str | None:
        """Why `batch` lies outside the domain, or None."""
        for chunk in batch.chunks:
            if chunk.prefix_tokens + chunk.chunk_tokens > self.context_length:
                return (
                    f"a chunk of {chunk.chunk_tokens:,} tokens after a prefix of {chunk.prefix_tokens:,} "
                    f"exceeds the context length {self.context_length:,}"
                )
        longest = batch.longest_context
        if longest > self.context_length:
            return f"a decode context of {longest:,} tokens exceeds the context length {self.context_length:,}"
        return self.refusal(*batch.point())

    def require(self, batch: Batch) -> None:
        """Check that a table may be asked about `batch`.

        Raises:
            OutOfDomainError: when it lies outside; the message names the limit.
        """
        reason = self.refusal_of(batch)
        if reason is not None:
            n, k, c, u = batch.point()
            raise OutOfDomainError(
                f"batch (n {n}, k {k}, c {c}, u {u}): {reason}; a table answers only where it was measured: "
                "profile a larger domain or ask for less"
            )
