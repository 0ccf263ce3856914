import math

import pytest
import torch
from support.kernel_device import DEVICE, close

from chunkfit.engine.kernels.online_softmax import reduce_splits, workspace


@pytest.mark.parametrize("splits", [2, 16, 17, 40])
def test_against_float64(splits):
    """Parts that were not written hold NaN; the last rows have the first part alone, and sizes far apart."""
    generator = torch.Generator().manual_seed(splits)
    parts = torch.randn((3, 2, splits, 32), generator=generator, dtype=torch.float64)
    logs = 40 * torch.randn((3, 2, splits), generator=generator, dtype=torch.float64)
    logs[:, :, 1:][torch.rand((3, 2, splits - 1), generator=generator) < 0.4] = -math.inf
    logs[2, :, 1:] = -math.inf
    out = torch.full((3, 2, 32), math.nan, device=DEVICE)
    partials, log_totals = workspace(out, splits)
    partials.copy_(parts.masked_fill(logs.isinf()[..., None], math.nan))
    log_totals.copy_(logs)
    reduce_splits(partials, log_totals, out)
    weights = torch.softmax(log_totals.double().cpu() * math.log(2), -1)
    close(out, (weights[..., None] * parts).sum(-2))


def test_nothing_split_needs_no_workspace():
    out = torch.zeros((3, 2, 32), device=DEVICE)
    assert all(part is out for part in workspace(out, 1))
