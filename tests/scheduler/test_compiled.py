"""The cache of compiled functions: kept for the next process, dropped when any source changed."""

import pytest

from chunkfit.scheduler import compiled
from chunkfit.scheduler.cost.look_up import bound_ticks
from chunkfit.scheduler.policies.decide import decide

pytestmark = pytest.mark.skipif(not compiled.COMPILES, reason="nothing is compiled here")


def test_the_stamp_of_every_cached_function_is_that_of_all_sources():
    assert decide._cache._cache_file._source_stamp == compiled.sources_digest()
    assert bound_ticks._cache._cache_file._source_stamp == compiled.sources_digest()


def test_a_changed_source_is_compiled_again(tmp_path):
    """numba drops an index whose stamp differs: what `compiled` relies on."""
    file = type(decide._cache._cache_file)(tmp_path, "f", "one")
    file.save("key", b"code")
    assert type(file)(tmp_path, "f", "one").load("key") == b"code"
    assert type(file)(tmp_path, "f", "two").load("key") is None
