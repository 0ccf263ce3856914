"""Where kernels are run: on a GPU, or anywhere under Triton's interpreter."""

import os

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RUNNABLE = INTERPRETED or torch.cuda.is_available()
DEVICE = "cpu" if INTERPRETED else "cuda"
# Under the interpreter bfloat16 products are wrong (Triton 3.9).
DTYPES = (torch.float32, torch.float16) if INTERPRETED else (torch.float32, torch.float16, torch.bfloat16)
# Of values near 1: a few units in the last place of the type.
TOLERANCES = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


def close(found, expected):
    """Equal to float64 `expected` within the tolerance of found's type; NaN is equal to nothing."""
    torch.testing.assert_close(
        found.double().cpu(), expected.double().cpu(), rtol=TOLERANCES[found.dtype], atol=TOLERANCES[found.dtype]
    )
