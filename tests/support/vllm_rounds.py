"""A real vLLM engine under a mixed load, three schedulers in turns: python -m support.vllm_rounds MODEL TABLE FOLDER.

One engine, so that nothing differs but the scheduling: `default` is vLLM's own scheduler, `recorded` the same with the
recorder, `sloweave` ours. Prints JSON: the tokens of every request, the gaps of the streams, the iterations.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.llm_engine import LLMEngine

from chunkfit.integrations.vllm.record_file import line_of
from chunkfit.integrations.vllm.work import work_of
from support.vllm_harness import ENGINE

KINDS = ("default", "recorded", "sloweave")
ROUNDS = 3
STREAMS, STREAM_TOKENS = 6, 100
PROMPTS, PROMPT_TOKENS = 3, 900


def run_round(engine, scheduler, kind, number):
    """(tokens by request, gaps of the streams in ms)."""
    scheduler.kind = kind
    rng = np.random.default_rng(3)  # the same prompts in every round, unknown to the prefix cache
    arrivals = [(0, f"s{i}", 40 + 16 * i, STREAM_TOKENS) for i in range(STREAMS)]
    arrivals += [(20 + 25 * i, f"p{i}", PROMPT_TOKENS, 4) for i in range(PROMPTS)]
    tokens = {name: [] for _, name, _, _ in arrivals}
    times = {name: [] for name in tokens}
    step = 0
    while arrivals or engine.has_unfinished_requests():
        while arrivals and arrivals[0][0] <= step:
            _, name, prompt, output = arrivals.pop(0)
            options = SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True, detokenize=False)
            text = {"prompt_token_ids": rng.integers(3, 2000, prompt).tolist(), "cache_salt": f"{kind}-{number}-{name}"}
            engine.add_request(f"{kind}-{number}-{name}", text, options)
        for output in engine.step():
            name = output.request_id.split("-")[2]
            tokens[name] = list(output.outputs[0].token_ids)
            times[name].append(time.perf_counter())
        step += 1
    gaps = [gap for name in times if name.startswith("s") for gap in (1e3 * np.diff(times[name])).tolist()]
    return tokens, gaps


def recording_us(scheduler) -> float:
    """What the recorder adds to an iteration of 256 decodes and a chunk, written to its file: the median."""
    from types import SimpleNamespace

    requests = {str(i): SimpleNamespace(num_prompt_tokens=500, num_computed_tokens=800 + i) for i in range(257)}
    requests["256"].num_computed_tokens = 400
    counts = dict.fromkeys(requests, 1) | {"256": 200}
    times = []
    for _ in range(500):
        begin = time.perf_counter()
        work = work_of(counts, {}, requests)
        scheduler._record.write(line_of(work.contexts, work.chunks, 0.01, begin, "FULL"))
        times.append(time.perf_counter() - begin)
    return 1e6 * float(np.median(times))


def main(model: str, table: str, tpot_ms: str, folder: str) -> None:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    out = os.dup(1)
    os.dup2(2, 1)
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    arguments = EngineArgs.from_cli_args(parser.parse_args(["--model", model, *ENGINE]))
    arguments.scheduler_cls = "support.vllm_in_turns.InTurns"
    options = {"table": table, "tpot_ms": float(tpot_ms), "record": folder}
    arguments.additional_config = {"chunkfit": options}
    engine = LLMEngine.from_engine_args(arguments)
    scheduler = engine.engine_core.engine_core.scheduler
    told = {"tokens": [], "gaps": {kind: [] for kind in KINDS}}
    for number in range(1 + ROUNDS):  # the first turn warms up
        for kind in KINDS:
            tokens, gaps = run_round(engine, scheduler, kind, number)
            told["tokens"].append(tokens)
            if number:
                told["gaps"][kind].append(gaps)
    told |= {"iterations": scheduler.iterations, "counters": scheduler.counters.sent()}
    told["recording_us"] = recording_us(scheduler)
    os.write(out, json.dumps(told).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
