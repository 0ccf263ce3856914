"""The options of all policies as one record, in the units of the state."""

from __future__ import annotations

import numpy as np

PRIORITIES = 4  # levels with a margin of their own; the last serves all lower ones

PARAMETERS = np.dtype(
    [
        ("family", "i8"),  # code in registry.FAMILIES
        ("deadline", "i8"),  # state.PER_TOKEN or state.SCHEDULE
        ("late", "i8"),  # state.REBASE or state.LEAVE_OUT
        ("chunk_tokens", "i8"),  # prompt tokens of an iteration at most
        ("token_budget", "i8"),  # n + c at most
        ("prefills", "i8"),  # chunks of an iteration at most
        ("align", "i8"),
        ("margin", "i8", (PRIORITIES,)),  # 1 + margin of each priority, in 1/4096
        ("aging", "i8"),  # ticks of waiting; 0: none
        ("admission", "i8"),  # 0 or 1
        ("sorter", "i8"),  # 0 or 1, as the next two: the parts of SlidingServe
        ("chunker", "i8"),
        ("constructor", "i8"),
        ("urgency", "f8"),  # share of the slack that a prefill may need before it is urgent
        ("throughput", "f8"),  # tokens per tick to begin with; 0: the first iteration with a chunk says
        ("throughput_decay", "f8"),  # share that the average keeps; 0: no average is kept
        ("alpha", "i8"),  # ticks per remaining token in QoServe's priority
        ("variant", "i8"),  # of QoServe's deadlines: 0 paper, 1 code, one target between tokens later
    ]
)
