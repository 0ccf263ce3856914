"""Rules that tell from a run's iterations and requests whether its token budget is too high or too low.

Too high: decodes stall when long prompts are prefilled. Too low: TTFT rises for prompts of every length, less is
computed than arrives, and iterations leave room under the target. A rule that does not apply names the part that is
missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..files.errors import UsageError
from .serving_metrics import TOLERANCE_MS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.void]

LONG_QUANTILES = (0.25, 0.5, 0.75, 0.9)  # of the prompts, after prefix-cache hits; longer than one of them is long
SPIKE_SHARE = 0.01  # of the iterations with decodes, or of the requests: more than this and the P99 is over the target
MIN_EPISODES = 10  # consecutive spikes are one episode; fewer episodes show no pattern
COINCIDE_SHARE = 0.5  # of the episodes
TIMES_MORE = 3.0  # spikes in iterations with a long prompt, over those without
MIN_REQUESTS = 60  # with a first token, that is 20 for each third of the prompt lengths
RISE = 1.5  # median TTFT of the last third of the arrivals over that of the first third
SAG = 0.9  # tokens computed over tokens that arrived
ROOM = 0.7  # of the target: an iteration with waiting prompts under this could have held a longer chunk


@dataclass(frozen=True, slots=True)
class Iterations:
    """(m,) each, in order of time. prompt_tokens: the longest prompt that a chunk of the iteration belongs to, after
    prefix-cache hits, 0 without a chunk. waiting: requests whose prefill had not ended when it started.
    """

    start_ms: Floats
    latency_ms: Floats
    decodes: Ints
    chunk_tokens: Ints
    prompt_tokens: Ints
    waiting: Ints

    def __post_init__(self) -> None:
        sizes = {len(self.start_ms), len(self.latency_ms), len(self.decodes), len(self.chunk_tokens)}
        if len(sizes | {len(self.prompt_tokens), len(self.waiting)}) != 1:
            raise UsageError("iterations: columns of different lengths; expected one value an iteration in each")


def of_log(log: Rows, requests: Rows, results: Rows) -> Iterations:
    """log: rows with start_ms, latency_ms, decodes, chunk_tokens and queued, in order of time.

    An iteration does not say whose chunks it has. A prompt of m tokens is taken to be in the last iterations whose
    chunks add up to m, up to its first token: exact where prompts are computed one after the other.
    """
    chunks = log["chunk_tokens"].astype(np.int64)
    done = np.cumsum(chunks)
    ends = log["start_ms"] + log["latency_ms"]
    prompts = (requests["prompt_tokens"] - requests["cached_tokens"]).astype(np.int64)
    started = np.flatnonzero(np.isfinite(results["first_token_ms"]))
    # A clock may round: the iteration that ends nearest to the first token gave it.
    middles = (ends[:-1] + ends[1:]) / 2
    last = np.searchsorted(middles, results["first_token_ms"][started])
    first = np.searchsorted(done, done[last] - prompts[started], side="right") if len(log) else last
    longest = np.zeros(len(log), dtype=np.int64)
    for index in np.argsort(prompts[started], kind="stable"):
        longest[first[index] : last[index] + 1] = prompts[started[index]]
    longest[chunks == 0] = 0
    return Iterations(
        log["start_ms"],
        log["latency_ms"],
        log["decodes"].astype(np.int64),
        chunks,
        longest,
        log["queued"].astype(np.int64),
    )


@dataclass(frozen=True, slots=True)
class Symptom:
    """found: None where the run is too short. evidence: figures by name. says: one sentence for people."""

    rule: str
    found: bool | None
    evidence: Mapping[str, float]
    says: str


def diagnose(iterations: Iterations, requests: Rows, results: Rows, tpot_ms: float) -> tuple[Symptom, ...]:
    """Both rules. requests, results: rows of WORKLOAD and RESULT. tpot_ms: the target of an iteration with decodes."""
    computed = (requests["prompt_tokens"] - requests["cached_tokens"]).astype(np.int64)
    gaps_ms = results["p99_gap_ms"][np.isfinite(results["p99_gap_ms"])]
    return (
        budget_too_high(iterations, computed, tpot_ms, gaps_ms),
        budget_too_low(iterations, requests, results, tpot_ms),
    )


def budget_too_high(iterations: Iterations, prompts: Ints, tpot_ms: float, gaps_ms: Floats) -> Symptom:
    """Do iterations over the target coincide with long prompts? prompts: (r,) tokens after prefix-cache hits.

    gaps_ms: requests' own P99 gaps, those that are known. One iteration in 200 over the target spoils most requests
    of 100 tokens, so either count of them is a reason to look.
    """
    rule = "token budget too high"
    decoding = iterations.decodes > 0
    spike = iterations.latency_ms[decoding] > tpot_ms + TOLERANCE_MS
    if not len(prompts) or not len(spike):
        return Symptom(rule, None, {}, "no iteration with decodes, or no prompt: nothing to judge by")
    starts = spike & ~np.concatenate(([False], spike[:-1]))
    episodes = int(starts.sum())
    evidence = {
        "target_ms": tpot_ms,
        "iterations": float(len(spike)),
        "over_target_share": float(spike.mean()),
        "episodes": float(episodes),
    }
    late = float((gaps_ms > tpot_ms + TOLERANCE_MS).mean()) if len(gaps_ms) else 0.0
    evidence |= {"requests_over_target_share": late} if len(gaps_ms) else {}
    if spike.mean() <= SPIKE_SHARE and late <= SPIKE_SHARE:
        of_requests = f" and {late:.2%} of the requests' P99 gaps" if len(gaps_ms) else ""
        says = f"{spike.mean():.2%} of the iterations{of_requests} are over {tpot_ms:g} ms: their P99 is in time"
        return Symptom(rule, False, evidence, says)
    long_tokens = _longer_than(iterations.prompt_tokens[decoding], prompts, spike)
    if episodes < MIN_EPISODES or long_tokens is None:
        why = f"{episodes} episodes over {tpot_ms:g} ms"
        return Symptom(rule, None, evidence, f"{why}: too few, or no iterations without long prompts to compare with")
    long = iterations.prompt_tokens[decoding] > long_tokens
    episode = np.cumsum(starts)[spike]  # 1, 1, 2, ...: which run of spikes each belongs to
    coincide = len(np.unique(episode[long[spike]]))
    with_long, without = float(spike[long].mean()), float(spike[~long].mean())
    evidence |= {
        "long_prompt_tokens": float(long_tokens),
        "episodes_with_long_prompt": float(coincide),
        "over_target_with_long": with_long,
        "over_target_without": without,
    }
    spoilt = f"; they spoil the P99 gap of {late:.0%} of the requests" if late else ""
    found = coincide >= COINCIDE_SHARE * episodes and with_long >= TIMES_MORE * without
    says = (
        f"{coincide} of {episodes} episodes over {tpot_ms:g} ms have a prompt over {long_tokens:,} tokens; "
        f"{with_long:.1%} of the iterations with one are over, {without:.1%} of those without{spoilt}"
    )
    return Symptom(rule, found, evidence, says + ("" if found else ": the spikes are not the long prompts'"))


def _longer_than(longest: Ints, prompts: Ints, spike: Bools) -> int | None:
    """The length, of LONG_QUANTILES and 0, that parts iterations over the target from those under it best.

    0 is any prompt at all. None where no length leaves iterations on both sides.
    """
    lengths = {0, *np.quantile(prompts, LONG_QUANTILES, method="inverted_cdf").astype(int).tolist()}
    parts = {tokens: longest > tokens for tokens in sorted(lengths)}
    gains = {
        tokens: spike[long].mean() - spike[~long].mean()
        for tokens, long in parts.items()
        if long.any() and not long.all()
    }
    return max(gains, key=gains.__getitem__) if gains else None


def budget_too_low(iterations: Iterations, requests: Rows, results: Rows, tpot_ms: float) -> Symptom:
    """Does TTFT rise for all lengths while less is computed than arrives, with room in the iterations?"""
    rule = "token budget too low"
    served = np.isfinite(results["first_token_ms"])
    arrival = requests["arrival_ms"][served]
    if int(served.sum()) < MIN_REQUESTS or not len(iterations.start_ms) or arrival[-1] <= arrival[0]:
        why = f"{int(served.sum())} requests with a first token; expected {MIN_REQUESTS} or more"
        return Symptom(rule, None, {}, f"{why}, arriving over some time: too few to see a trend")
    rises = _rises(requests[served], results[served])
    from_ms, to_ms = arrival[0] + 2 * (arrival[-1] - arrival[0]) / 3, arrival[-1]
    offered, computed = _throughput(iterations, requests, from_ms, to_ms)
    held_back = (iterations.decodes > 0) & (iterations.waiting > 0)
    latencies = iterations.latency_ms[held_back]
    p90_ms = float(np.quantile(latencies, 0.9, method="inverted_cdf")) if len(latencies) else None
    evidence = {
        "target_ms": tpot_ms,
        "ttft_rise_short": rises[0],
        "ttft_rise_middle": rises[1],
        "ttft_rise_long": rises[2],
        "offered_tokens_per_s": offered,
        "computed_tokens_per_s": computed,
    } | ({} if p90_ms is None else {"p90_ms_while_prompts_wait": p90_ms})
    trend = (
        f"median TTFT of the last third of the arrivals over the first: {rises[0]:.2g}, {rises[1]:.2g}, {rises[2]:.2g} "
        f"times for short, middle, long prompts; {computed:,.0f} tokens/s computed of {offered:,.0f} that arrived"
    )
    if min(rises) < RISE or computed > SAG * offered:
        return Symptom(rule, False, evidence, f"{trend}: no climb for all with sagging throughput")
    if p90_ms is None:
        return Symptom(rule, False, evidence, f"{trend}; no iteration with decodes while prompts wait")
    if p90_ms > ROOM * tpot_ms:
        return Symptom(rule, False, evidence, f"{trend}; iterations have no room under {tpot_ms:g} ms: overload")
    room = f"nine in ten iterations with waiting prompts took {p90_ms:.3g} of {tpot_ms:g} ms or less"
    return Symptom(rule, True, evidence, f"{trend}; {room}")


def _rises(requests: Rows, results: Rows) -> tuple[float, float, float]:
    """Per third of the prompt lengths: median TTFT of its last third of arrivals over that of its first."""
    ttft = results["first_token_ms"] - requests["arrival_ms"]
    by_length = np.argsort(requests["prompt_tokens"] - requests["cached_tokens"], kind="stable")
    rises = []
    for members in np.array_split(by_length, 3):
        early, _, late = np.array_split(ttft[np.sort(members)], 3)
        rises.append(float(np.median(late) / max(np.median(early), 1e-9)))
    return rises[0], rises[1], rises[2]


def _throughput(iterations: Iterations, requests: Rows, from_ms: float, to_ms: float) -> tuple[float, float]:
    """Tokens/s that arrived, and that were computed, between two times."""
    arrived = (requests["arrival_ms"] >= from_ms) & (requests["arrival_ms"] <= to_ms)
    work = requests["prompt_tokens"].astype(np.int64) - requests["cached_tokens"] + requests["output_tokens"] - 1
    ran = (iterations.start_ms >= from_ms) & (iterations.start_ms <= to_ms)
    tokens = iterations.decodes[ran].sum() + iterations.chunk_tokens[ran].sum()
    seconds = (to_ms - from_ms) / 1000
    return float(work[arrived].sum() / seconds), float(tokens / seconds)
