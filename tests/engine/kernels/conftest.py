"""These tests run the kernels: on a GPU, or anywhere under Triton's interpreter, which has to be chosen before
triton is imported. So tests/engine/test_interpreted_kernels.py runs this folder in a process of its own.
"""

import math

import pytest
import torch
from support.kernel_device import RUNNABLE

collect_ignore_glob = [] if RUNNABLE else ["test_*.py"]


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """What the launchers allocate, results and workspace, holds NaN until it is written."""
    plain = torch.Tensor.new_empty

    def new_empty(*args, **kwargs):
        made = plain(*args, **kwargs)
        return made.fill_(math.nan) if made.is_floating_point() else made

    monkeypatch.setattr(torch.Tensor, "new_empty", new_empty)
