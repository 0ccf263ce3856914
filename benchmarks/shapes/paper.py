"""Printed figures of the papers whose workloads can be reconstructed."""

from __future__ import annotations

# SLOWeave, Tables 3 and 4, section 6; means of five seeds. (workload, target in ms, policy, what): (value, unit)
ONE = "sloweave:prefills=1"
SLOWEAVE_FIGURES = {
    ("mixed", 25.0, ONE, "goodput"): (59.0, "req/s"),
    ("mixed", 25.0, ONE, "good requests"): (79.4, "%"),
    ("mixed", 25.0, "fixed-1024", "goodput"): (42.4, "req/s"),
    ("mixed", 25.0, "fixed-1024", "good requests"): (59.4, "%"),
    ("mixed", 25.0, "fixed-1024", "P99 TTFT"): (2101.0, "ms"),
    ("mixed", 25.0, "full", "good requests"): (6.9, "%"),
    ("mixed", 25.0, "full", "P99 TTFT"): (1364.0, "ms"),
    ("mixed", 25.0, "full", "P99 TPOT"): (48.5, "ms"),
    ("mixed", 10.0, ONE, "goodput"): (35.7, "req/s"),
    ("mixed", 10.0, "fixed-1024", "goodput"): (1.06, "req/s"),
    ("mixed", 50.0, ONE, "goodput"): (60.5, "req/s"),
    ("mixed", 50.0, "full", "goodput"): (60.4, "req/s"),
    ("long", 25.0, ONE, "good requests"): (66.2, "%"),
    ("long", 25.0, "fixed-1024", "good requests"): (51.4, "%"),
    ("long", 25.0, "full", "good requests"): (0.1, "%"),
    ("long", 25.0, "full", "P99 TPOT"): (61.0, "ms"),
    ("bursty", 25.0, ONE, "good requests"): (88.6, "%"),
    ("bursty", 25.0, "fixed-1024", "good requests"): (83.0, "%"),
}
# Over the strongest static policy of {full, 64, 256, 1024}.
SLOWEAVE_RATIOS = {
    ("mixed", 10.0): 3.35,
    ("mixed", 25.0): 1.39,
    ("mixed", 50.0): 60.5 / 60.4,
    ("long", 10.0): 2.45,
    ("long", 25.0): 1.38,
    ("bursty", 10.0): 2.39,
    ("bursty", 25.0): 1.09,
    ("chat", 25.0): 1.0,
}

# SlidingServe, Figures 4 and 6, Table 4: Qwen2.5-7B on two RTX 3090.
SLIDING_OVER_EDF = (1.25, 2.11)  # capacity at 99% good, least and most of its workloads and two models
SLIDING_OVER_QOSERVE = (1.097, 1.30)
SLIDING_CAPACITY = {
    "sarathi-edf": 1.50,
    "SC": 1.75,
    "SC + MLPS": 1.85,
    "SC + MLPS + BC": 1.95,
}  # mixed-v1, requests/s at 99% good
SLIDING_OVERLOAD = {"sarathi-edf": 100.0, "SC": 81.5, "SC + MLPS": 58.6, "SC + MLPS + BC": 50.5}  # % late at 3/s
SLIDING_WAVE = {"sarathi-edf": 57.78, "qoserve": 51.30, "slidingserve": 27.56}  # % late over the square wave
