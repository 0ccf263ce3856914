"""Passes of the tiny model over batches of many sizes, captured ones too, with everything of Triton but compiler and
GPU: prints which compiled forms the runtime would have asked for, one JSON line each, next to what the compile test
compiles.
"""

import json
import sys

import torch
from compile_kernels import compile_arguments, configurations
from fake_graphs import FakeCapture
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from chunkfit.engine import PRESETS, SequenceWork, attention
from chunkfit.engine.attention import triton_paged
from chunkfit.engine.graphs import runner
from chunkfit.engine.graphs.runner import GraphRunner
from chunkfit.engine.host_step import lay_out
from chunkfit.engine.kv_cache import allocate_kv_cache, pages_for
from chunkfit.engine.model import Decoder, random_weights
from chunkfit.engine.step import send

CPU = torch.device("cpu")
TINY = PRESETS["tiny"]


class NoGpu:
    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 80, 32)


def form(name, signature, constants, divisible):
    """Comparable: names of arguments that are integers or pointers divisible by 16 beside types and constants."""
    return json.dumps([name, sorted(signature.items()), sorted(constants.items()), sorted(divisible)])


def passes():
    """Decodes and chunks of 1 token and more, multiples of 16 and not: sizes, and so alignments of views, differ.

    Yields once, when everything is captured.
    """
    weights = random_weights(TINY, CPU, torch.bfloat16, torch.Generator())
    cache = allocate_kv_cache(TINY, 257, CPU, torch.bfloat16, None)
    decoder = Decoder(TINY, weights, cache, attention.BACKENDS["triton"].load())
    graphs = GraphRunner(decoder, 256, 2048, FakeCapture(CPU))
    yield
    for decodes in (0, 1, 2, 15, 16, 17, 64):
        for tokens in ([], [1], [16], [17, 5]):
            if not decodes and not tokens:
                continue
            for context in (1, 16, 700, 2048):
                works = [SequenceWork([1], context - 1, range(pages_for(context)))] * decodes
                chunks = [SequenceWork([1] * count, context, range(pages_for(context + count))) for count in tokens]
                batch = lay_out(works, chunks, vocab_size=TINY.vocab_size, pages=256)
                with torch.inference_mode():
                    decoder.forward(send(batch, CPU))
                    if context == 700:
                        graphs.run(batch)


def main():
    asked = set()

    def record(key, fn, compile, **_):
        names = fn.jit_function.arg_names
        divisible = [names[index] for (index,), found in compile["configs"][0].items() if found]
        constants = {names[index]: value for (index,), value in compile["constants"].items()}
        asked.add(form(fn.jit_function.__name__, compile["signature"], constants, divisible))
        return True  # neither compile nor launch

    triton_paged.INTERPRETED = (64, 8)  # enough processors for splits of decodes and of chunks
    runner.CAPTURE_SIZES = runner.DECODE_SIZES = (1, 2, 16, 48, 64)
    driver.set_active(NoGpu())
    knobs.runtime.jit_cache_hook = record
    running = passes()
    next(running)
    at_start = sorted(asked)
    for _ in running:
        pass
    listed = configurations(
        "chunkfit.engine.kernels",
        heads=TINY.heads,
        kv_heads=TINY.kv_heads,
        head_dim=TINY.head_dim,
        hidden_size=TINY.hidden_size,
        intermediate_size=TINY.intermediate_size,
        eps=TINY.rms_norm_eps,
        qk_norm=TINY.qk_norm,
        page_size=16,
        itemsize=2,
        capability=8,
    )
    compiled = set()
    for variant in listed.values():
        signature, divisible = compile_arguments(variant, "*bf16")
        compiled.add(form(variant.kernel.__name__, signature, dict(variant.constants), divisible))
    json.dump({"at_start": at_start, "asked": sorted(asked), "compiled": sorted(compiled)}, sys.stdout)


if __name__ == "__main__":
    main()
