"""Reasons of failed claims, and of differences between a published figure and ours, by words of their titles."""

from __future__ import annotations

OWN_DEVICE = (
    "the device is a formula, the policies know it exactly, TTFT targets are at least 500 ms, and B, alpha and rho, "
    "which the paper does not print, are ours."
)
UNKNOWN = "not explained."
WHY_FAILED = {
    "by nearest rank": (
        "full computes prompts of some 7,000 tokens and more in one iteration of over 50 ms. By nearest rank the P99 "
        "of up to 100 gaps is the largest, so every decode beside such an iteration is late. Interpolated, it is less "
        "than the largest: by that the tie holds, and full has the published P99s (section printed). Without such "
        "prompts full is not behind by nearest rank either (section variations)."
    ),
    "best of fine grid": (
        "a token budget gives prefills what the decodes leave of it, so it shrinks as the adaptive chunk does, and the "
        "best one is chosen on these very seeds. On an affine cost its shorter iterations only pay the fixed part more "
        "often, so it computes nearly as many prompt tokens a ms. Over the best chunk of one size the ratio stands "
        "among the figures."
    ),
}
WHY_DIFFERS = {
    "over the best of paper's set": (
        "over capacity a static policy serves the first arrivals in time and hardly any other, so its goodput falls "
        "with the rate and the length of the run, and neither is published."
    ),
    "bursty": "neither the lengths nor the waves of bursty are published; its lengths here are those of mixed.",
    "mixed 8": "near capacity these figures move with the rate, which is not published; 81/s and 85/s stand here.",
    "over qoserve": (
        "here QoServe's grid of budgets ends at 1,024, which the device can bear, and it knows the cost exactly; its "
        "capacity with the shipped grid, made for an A100, stands among the figures. No option was tuned to the "
        "published order."
    ),
    "qoserve": (
        "the paper prints neither alpha nor budgets nor predictor of its QoServe. Here it knows the cost exactly and "
        "its grid ends at 1,024. Either of alpha and relegation ahead of time keeps it about so low; without both "
        "(alpha=0ms,throughput=100000000/s,throughput_decay=1) it is late several times as often."
    ),
    "SC + MLPS over SC: capacity": (
        "what the sorter makes late near 99% good are first tokens, mostly of dialogue prompts of usual length: within "
        "a level it goes by remainder and not by deadline. Over capacity that is worth more than it costs."
    ),
    "capacity": OWN_DEVICE,
    "late": OWN_DEVICE,
}


def why_failed(title: str) -> str:
    return reason(WHY_FAILED, title)


def why_differs(title: str) -> str:
    return reason(WHY_DIFFERS, title)


def reason(reasons: dict[str, str], title: str) -> str:
    """The first reason whose words are in the title."""
    return next((text for words, text in reasons.items() if words in title), UNKNOWN)
