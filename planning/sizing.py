"""Static sizing: the largest token budget of an iteration that keeps a decode latency target.

A static budget B is what engines call the maximum of batched tokens: each iteration takes its decodes, one token
each, and fills what is left with prompt tokens. So a batch of fewer decodes takes a longer chunk, and B is safe
only when every iteration it allows is. See ALGORITHMS "Static sizing" of the design and Sarathi-Serve (OSDI'24).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..files.errors import OutOfDomainError, UsageError
from ..tables.batch import Batch, Point
from ..tables.cost_table import CostTable
from ..tables.fingerprint import Fingerprint, Severity, severity
from ..tables.grid import Points
from ..tables.support import SupportKind
from .ridge import ENOUGH, Ridge, find_ridge

# What the token budget is called by the engine a table was measured on: those count decodes in it.
SETTINGS = {
    "vllm": "max_num_batched_tokens",
    "sglang": "--chunked-prefill-size (with --enable-mixed-chunk)",
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of `tokens` tokens whose first `hit_tokens` lie in the prefix cache: only the rest is computed."""

    tokens: int
    hit_tokens: int = 0

    def __post_init__(self) -> None:
        if self.tokens < 1 or not 0 <= self.hit_tokens < self.tokens:
            raise UsageError(
                f"Prompt: {self.tokens} tokens, {self.hit_tokens} of them hits; expected at least 1 token and "
                "fewer hits than tokens: the last token is always computed"
            )

    @classmethod
    def after_hits(cls, tokens: int, hit_rate: float) -> Prompt:
        """Hits are rounded down. Raises UsageError unless 0 <= hit_rate <= 1.

        >>> Prompt.after_hits(4000, 0.5).suffix_tokens
        2000
        """
        if not 0 <= hit_rate <= 1:
            raise UsageError(f"prefix hit rate {hit_rate:g}; expected a share from 0 to 1")
        return cls(tokens, min(int(hit_rate * tokens), tokens - 1))

    @property
    def suffix_tokens(self) -> int:
        """What has to be computed."""
        return self.tokens - self.hit_tokens


@dataclass(frozen=True, slots=True)
class Budget:
    """tokens: the largest n + c of an iteration, 0 where not even one prompt token fits beside the decodes.

    limited_by: "target", or "domain" where a larger budget was not measured. worst: (n, k, c, u) of the slowest
    iteration that the budget allows, worst_ms its bound, support what that rests on.
    """

    tokens: int
    limited_by: str
    limit_ms: float
    worst: Point | None
    worst_ms: float | None
    support: SupportKind | None = None


def static_budget(
    table: CostTable, decodes: int, context_tokens: int, limit_ms: float, prompts: Sequence[Prompt] = ()
) -> Budget:
    """Largest B such that bound_ms <= limit_ms for every iteration of 1 to `decodes` decodes of mean context
    `context_tokens` and 1 to B - n prompt tokens, at whatever place of whichever of `prompts` they stand.

    The table's factors are on top: of two or more decodes, which never all have the mean context, and of several
    prompts in one iteration; a factor that was not measured is 1.

    Places: c tokens of one prompt come after at most tokens - c others; more than a prompt's suffix are several
    prompts, each after its own hits (read as the table reads several chunks). The end of one prompt and the
    beginning of the next in one iteration do less attention than that but read up to c + hits more KV tokens,
    which is not counted. Without prompts chunks have no prefix: prompts that fit one chunk.

    B never falls as the limit rises and never rises with decodes, context or another prompt: the bound is
    monotone, and a larger budget only adds iterations. So bisection is exact.
    Raises OutOfDomainError when the table does not cover B = decodes + 1, UsageError for impossible arguments.
    """
    if decodes < 1 or context_tokens < 1 or limit_ms != limit_ms:
        raise UsageError(
            f"static_budget(decodes={decodes}, context_tokens={context_tokens}, limit_ms={limit_ms}): expected at "
            "least 1 decode with a context of at least 1 token and a limit that is a number"
        )
    least = decodes + 1
    table.domain.require(Batch.of(decodes, context_tokens))
    _require_inside(table, _iterations(least, decodes, context_tokens, prompts), prompts)
    top = _last(least, table.domain.max_batch_tokens, lambda b: _inside(table, b, decodes, context_tokens, prompts))

    def slowest(budget: int) -> tuple[Point, float]:
        points = _iterations(budget, decodes, context_tokens, prompts)
        bounds = table.read_bounds(points, points[:, 0] > 1, _several(points, prompts))
        at = int(bounds.argmax())
        return Point(*points[at].tolist()), float(bounds[at])

    if slowest(least)[1] > limit_ms:
        return Budget(0, "target", limit_ms, None, None)
    tokens = _last(least, top, lambda b: slowest(b)[1] <= limit_ms)
    worst, worst_ms = slowest(tokens)
    limited_by = "domain" if tokens == top else "target"
    return Budget(tokens, limited_by, limit_ms, worst, worst_ms, table.support_of(worst))


def budget_ridge(table: CostTable, decodes: int, context_tokens: int) -> Ridge | None:
    """The ridge of expected_ms over the budget n + c at this decode batch, chunks without prefix; None where the
    domain leaves too few budgets to tell. It comes from the table, so it has no interval.
    """
    domain = table.domain
    room = domain.kv_tokens - decodes * context_tokens
    most = min(domain.max_chunk_tokens, domain.max_batch_tokens - decodes, room, domain.context_length)
    if most < ENOUGH:
        return None
    chunks = np.unique(np.geomspace(1, most, 60).round().astype(np.int64))
    if len(chunks) < ENOUGH:
        return None
    state = np.asarray([[decodes, context_tokens, 0, 0]])
    points = np.repeat(state, len(chunks), axis=0)
    points[:, 2] = chunks
    known = table.arrays.answers(points)
    if known.sum() < ENOUGH:
        return None
    expected = table.read(points[known])[0]
    return find_ridge(decodes + chunks[known], expected) if (expected > 0).all() else None


def retune_fields(fingerprint: Fingerprint) -> dict[str, dict[str, object]]:
    """What the budget rests on: fields whose change needs another table ("refuse") or a check ("warn"), with the
    values measured.
    """
    return {
        level.value: {name: getattr(fingerprint, name) for name in Fingerprint.model_fields if severity(name) is level}
        for level in (Severity.REFUSE, Severity.WARN)
    }


def _iterations(budget: int, decodes: int, context_tokens: int, prompts: Sequence[Prompt]) -> Points:
    """The iterations that bound all those `budget` allows: for each chunk the most decodes beside it and, per
    prompt, the longest prefix before it. (points, 4) of n, k, c, u.
    """
    c = np.arange(1, budget, dtype=np.int64)
    n = np.minimum(decodes, budget - c)
    k = np.full_like(c, context_tokens)
    prefixes = [_longest_prefix(c, prompt) for prompt in prompts] or [np.zeros_like(c)]
    return np.concatenate([np.column_stack((n, k, c, u)) for u in prefixes])


def _several(points: Points, prompts: Sequence[Prompt]) -> NDArray[np.bool_]:
    """Which of `_iterations` compute more than one prompt."""
    each = np.split(points[:, 2], max(len(prompts), 1))
    suffixes = [prompt.suffix_tokens for prompt in prompts] or [np.iinfo(np.int64).max]
    return np.concatenate([c > suffix for c, suffix in zip(each, suffixes, strict=True)])


def _longest_prefix(c: NDArray[np.int64], prompt: Prompt) -> NDArray[np.int64]:
    several = prompt.hit_tokens * -(-c // prompt.suffix_tokens)
    return np.where(c <= prompt.suffix_tokens, prompt.tokens - c, several)


def _inside(table: CostTable, budget: int, decodes: int, context_tokens: int, prompts: Sequence[Prompt]) -> bool:
    return _outside(table, _iterations(budget, decodes, context_tokens, prompts), prompts).size == 0


def _outside(table: CostTable, points: Points, prompts: Sequence[Prompt]) -> NDArray[np.intp]:
    """Rows without an answer. Without prompts a chunk is one request, which its context length limits."""
    inside = table.domain.contains(points)
    if not prompts:
        inside &= points[:, 2] <= table.domain.context_length
    inside[inside] = table.arrays.answers(points[inside])
    return np.flatnonzero(~inside)


def _require_inside(table: CostTable, points: Points, prompts: Sequence[Prompt]) -> None:
    domain = table.domain
    longest = max((prompt.tokens for prompt in prompts), default=1)
    if longest > domain.context_length:
        raise OutOfDomainError(
            f"prompt of {longest:,} tokens: above the context length {domain.context_length:,} of the table"
        )
    wrong = _outside(table, points, prompts)
    if wrong.size:
        point = Point(*points[wrong[0]].tolist())
        n, k, c, u = point
        reason = domain.refusal(*point) or table.arrays.not_measured(point)
        raise OutOfDomainError(
            f"iteration (n {n}, k {k}, c {c}, u {u}), which any budget allows: {reason}; "
            "profile a larger domain or ask for fewer decodes, a shorter context or shorter prompts"
        )


def _last(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Largest value in [low, high] for which `holds`, which is true at low and never true again once false."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
