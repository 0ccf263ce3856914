import pytest
import torch

from chunkfit.profiler.microbench import ceilings, cold_timing, measure
from chunkfit.profiler.microbench.operator_sizes import OperatorSizes

SIZES = OperatorSizes(
    tokens=(1, 4, 16, 64, 128),
    decodes=((4, 64), (4, 10**9)),
    chunks=((32, 16),),
    batches=((4, 64, 0, 0), (0, 0, 64, 0), (4, 64, 28, 32)),
)


@pytest.fixture(scope="session", autouse=True)
def small_machine():
    """A cache of 2 MiB, so that evicting it takes no time, and small ceilings; threads as they were before."""
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cold_timing, "cache_bytes", lambda device: 2 << 20)
        patch.setitem(ceilings.COPY_BYTES, "cpu", 4 << 20)
        patch.setitem(ceilings.MATRIX_ROWS, "cpu", (128, 256))
        patch.setattr(measure, "MOST_REPLAYS", 110)
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small_sizes():
    return SIZES


@pytest.fixture(scope="session")
def measured(small_machine):
    """Real timings of a few small operators on this machine, and what progress said."""
    said = []
    options = measure.MicrobenchOptions("cpu", "tiny", 1, sizes=SIZES)
    result = measure.microbench(options, command="a test", progress=lambda *line: said.append(line))
    return result, said
