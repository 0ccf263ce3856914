"""The cache of compiled functions: kept for the next process, dropped when any source changed."""

import pytest

from chunkfit.scheduler import compiled
from chunkfit.scheduler.cost.look_up import bound_ticks
from chunkfit.scheduler.policies.registry import decide

pytestmark = pytest.mark.skipif(not compiled.COMPILES, reason="nothing is compiled here")


@pytest.mark.parametrize("function", [decide, bound_ticks])
def test_the_digest_of_all_sources_is_part_of_the_stamp(function):
    digest, own = function._cache._cache_file._source_stamp
    assert digest == compiled.sources_digest()
    assert own  # numba's own, of the function's file


def test_a_changed_source_is_compiled_again(tmp_path):
    """numba drops an index whose stamp differs: what `compiled` relies on."""
    file = type(decide._cache._cache_file)(tmp_path, "f", "one")
    file.save("key", b"code")
    assert type(file)(tmp_path, "f", "one").load("key") == b"code"
    assert type(file)(tmp_path, "f", "two").load("key") is None


def test_without_a_folder_for_the_cache_it_compiles_all_the_same():
    """A function of no file stands for a file in a folder that cannot be written."""
    names = {}
    exec("def twice(x):\n    return 2 * x", names)
    twice = compiled.compiled(names["twice"])
    assert twice(21) == 42
    assert twice.signatures
