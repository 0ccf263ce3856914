"""The sizes at which operators and whole iterations are timed, by device."""

from __future__ import annotations

from dataclasses import dataclass

from ...engine.config import ModelConfig
from ...tables.domain import Domain
from . import attention, ceilings, token_parallel
from .operator_buffers import Operator
from .results import Key, key_of

Point = tuple[int, int, int, int]  # n, k, c, u


@dataclass(frozen=True, slots=True)
class OperatorSizes:
    """tokens: n + c of the token-parallel operators; decodes: (n, k); chunks: (c, u); batches: whole iterations."""

    tokens: tuple[int, ...]
    decodes: tuple[tuple[int, int], ...]
    chunks: tuple[tuple[int, int], ...]
    batches: tuple[Point, ...]


CPU_QUICK = OperatorSizes(
    tokens=(1, 2, 4, 8, 16, 32, 64, 128, 256),
    decodes=((1, 256), (8, 256), (32, 256), (8, 1024)),
    chunks=((64, 0), (256, 0), (64, 1024)),
    batches=((8, 256, 0, 0), (0, 0, 256, 0), (8, 256, 56, 1024)),
)
CPU = OperatorSizes(
    tokens=(1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512),
    decodes=tuple((n, k) for n in (1, 4, 16, 32) for k in (64, 256, 1024) if n * k <= 16_384),
    chunks=tuple((c, u) for c in (16, 64, 256, 512) for u in (0, 512, 2048)),
    batches=((1, 256, 0, 0), (32, 256, 0, 0), (0, 0, 256, 0), (0, 0, 512, 2048), (16, 256, 48, 512), (32, 256, 224, 0)),
)
CUDA_TOKENS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192)
CUDA = OperatorSizes(
    tokens=CUDA_TOKENS,
    decodes=tuple((n, k) for n in (1, 4, 16, 64, 256) for k in (256, 1024, 4096, 16_384)),
    chunks=tuple((c, u) for c in (128, 512, 2048, 8192) for u in (0, 2048, 8192)),
    batches=(
        (4, 1024, 0, 0),
        (16, 1024, 0, 0),
        (64, 1024, 0, 0),
        (0, 0, 2048, 0),
        (0, 0, 2048, 2048),
        (64, 1024, 448, 2048),
    ),
)
CUDA_QUICK = OperatorSizes(
    tokens=(1, 8, 64, 128, 256, 512, 1024, 2048),
    decodes=((4, 1024), (64, 1024)),
    chunks=((2048, 0), (448, 2048)),
    batches=((64, 1024, 0, 0), (0, 0, 2048, 0), (64, 1024, 448, 2048)),
)
SIZES = {("cpu", True): CPU_QUICK, ("cpu", False): CPU, ("cuda", True): CUDA_QUICK, ("cuda", False): CUDA}
# KV tokens of one attention call: 1 GiB of a layer of an 8B model.
MOST_KV_TOKENS = 262_144


def within(sizes: OperatorSizes, domain: Domain) -> OperatorSizes:
    """The sizes that the domain of a device and model allows (context length, KV capacity)."""
    most = min(MOST_KV_TOKENS, domain.kv_tokens)

    def fits(n: int, k: int, c: int, u: int) -> bool:
        return domain.refusal(n, k, c, u) is None and u + c <= domain.context_length and n * k + c + u <= most

    return OperatorSizes(
        tuple(t for t in sizes.tokens if t <= domain.max_batch_tokens),
        tuple((n, k) for n, k in sizes.decodes if fits(n, k, 0, 0)),
        tuple((c, u) for c, u in sizes.chunks if fits(0, 0, c, u)),
        tuple(batch for batch in sizes.batches if fits(*batch)),
    )


def parts_of(config: ModelConfig, batch: Point) -> list[tuple[int, Key]]:
    """(times, operator) of a whole iteration, without embedding, metadata and sampling."""
    n, k, c, u = batch
    rows, sequences, layers = {"tokens": n + c}, {"tokens": n + (1 if c else 0)}, config.layers
    parts = [(layers * times, key_of(name, rows)) for name, times in token_parallel.PARTS.items()]
    parts += [(1, key_of("add_norm", sequences)), (1, key_of("lm_head", sequences))]
    if n:
        parts.append((layers, key_of("decode_attention", {"decodes": n, "context_tokens": k})))
    if c:
        parts.append((layers, key_of("chunk_attention", {"chunk_tokens": c, "prefix_tokens": u})))
    return parts


def operators_of(config: ModelConfig, item: int, kind: str, sizes: OperatorSizes, cache_bytes: int) -> list[Operator]:
    """All operators in the order of timing: ceilings, those of the ridge and of whole iterations, the rest.

    Where the time budget ends, the last ones are skipped.
    """
    totals = sorted({n + c for n, _, c, _ in sizes.batches})
    sequences = sorted({n + (1 if c else 0) for n, _, c, _ in sizes.batches})
    decodes = [(n, k) for n, k, _, _ in sizes.batches if n]
    chunks = [(c, u) for _, _, c, u in sizes.batches if c]
    listed = [
        *ceilings.operators(config, item, kind, cache_bytes),
        *token_parallel.whole_operators(config, item, sizes.tokens),
        *token_parallel.product_operators(config, item, totals, sequences),
        *token_parallel.pointwise_operators(config, item, totals, sequences),
        *attention.decode_operators(config, item, decodes),
        *attention.chunk_operators(config, item, chunks),
        *token_parallel.product_operators(config, item, sizes.tokens, sizes.tokens),
        *attention.decode_operators(config, item, sizes.decodes),
        *attention.chunk_operators(config, item, sizes.chunks),
        *token_parallel.pointwise_operators(config, item, sizes.tokens),
    ]
    return list({operator.key: operator for operator in listed}.values())
