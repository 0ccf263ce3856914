import pytest

from chunkfit.engine.kv_cache import PageAllocator, pages_for
from chunkfit.files.errors import DeviceMemoryError, UsageError


def test_pages_for():
    assert [pages_for(tokens) for tokens in (0, 1, 15, 16, 17, 33)] == [0, 1, 1, 1, 2, 3]


def test_pages_are_handed_out_once_and_come_back():
    allocator = PageAllocator(8)
    first, second = allocator.allocate(3), allocator.allocate(5)
    assert sorted(first + second) == list(range(8))
    assert allocator.free_pages == 0
    allocator.free(first)
    assert allocator.free_pages == 3
    assert sorted(allocator.allocate(3)) == sorted(first)
    assert allocator.allocate(0) == []


def test_asking_for_too_many_takes_nothing():
    allocator = PageAllocator(8)
    allocator.allocate(5)
    with pytest.raises(DeviceMemoryError, match="4 pages of 16 tokens were asked for and 3 of 8 are free"):
        allocator.allocate(4)
    assert allocator.free_pages == 3
    with pytest.raises(UsageError, match="count is -1"):
        allocator.allocate(-1)


@pytest.mark.parametrize("pages", [[7], [-1], [8], [0, 0]])
def test_freeing_what_is_not_held_changes_nothing(pages):
    allocator = PageAllocator(8)
    assert allocator.allocate(2) == [0, 1]
    with pytest.raises(UsageError, match="not held or named twice"):
        allocator.free(pages)
    assert allocator.free_pages == 6
