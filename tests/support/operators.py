"""Microbenchmarks of an engine that is the sum of its operators, and that engine."""

import numpy as np

from chunkfit.profiler.devices.synthetic import FINGERPRINT
from chunkfit.profiler.microbench.results import CeilingsV1, MicrobenchV1, OperatorRowV1

LAYERS = 16


def layer_ms(tokens):
    return 0.02 + np.maximum(0.4, 0.0025 * tokens)


def decode_ms(n, k):
    return 0.004 + 3e-6 * n * k


def chunk_ms(c, u):
    return 0.006 + 2e-7 * c * (u + c / 2)


def row(name, p50, sizes, bytes_moved=0, flops=0):
    return OperatorRowV1(
        family=name,
        name=name,
        sizes=sizes,
        bytes_moved=bytes_moved,
        flops=flops,
        p50_ms=float(p50),
        p99_ms=None,
        n=50,
        warm_p50_ms=float(p50),
        bytes_per_s=1.0,
        flops_per_s=1.0,
        ceiling="bandwidth",
        fraction=0.5,
    )


def operator_results(without=()):
    rows = [
        row("token_parallel", layer_ms(t), {"tokens": t}, 400_000 + 100 * t, 1000 * t)
        for t in (1, 4, 16, 64, 128, 160, 192, 256, 512, 1024, 2176)
    ]
    rows += [
        row("decode_attention", decode_ms(n, k), {"decodes": n, "context_tokens": k})
        for n in (1, 16, 128)
        for k in (64, 1024)
    ]
    rows += [
        row("chunk_attention", chunk_ms(c, u), {"chunk_tokens": c, "prefix_tokens": u})
        for c in (64, 512, 2048)
        for u in (0, 4096)
    ]
    return MicrobenchV1.model_construct(
        fingerprint=FINGERPRINT,
        ceilings=CeilingsV1(copy_bytes_per_s=1e9, flops_per_s=1e9),
        rows=[found for found in rows if found.name not in without],
    )


def engine_ms(points):
    n, k, c, u = points.T.astype(float)
    attention = np.where(n > 0, decode_ms(n, k), 0) + np.where(c > 0, chunk_ms(c, u), 0)
    return 0.7 + LAYERS * (layer_ms(n + c) + attention)
