import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """These shapes are too small to share, and threads that wait for a busy core stall for milliseconds."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
