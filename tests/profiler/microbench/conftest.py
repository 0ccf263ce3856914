import pytest
import torch

from chunkfit.profiler.microbench import ceilings, run, timing
from chunkfit.profiler.microbench.grid import Grid

GRID = Grid(
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
        patch.setattr(timing, "cache_bytes", lambda device: 2 << 20)
        patch.setitem(ceilings.COPY_BYTES, "cpu", 4 << 20)
        patch.setitem(ceilings.MATRIX_ROWS, "cpu", (128, 256))
        patch.setattr(run, "MOST_REPLAYS", 110)
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small_grid():
    return GRID


@pytest.fixture(scope="session")
def measured(small_machine):
    """Real timings of a few small operators on this machine, and what progress said."""
    said = []
    result = run.microbench(
        "cpu", "tiny", minutes=1, grid=GRID, command="a test", progress=lambda *line: said.append(line)
    )
    return result, said
