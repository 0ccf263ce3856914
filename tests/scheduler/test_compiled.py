"""The cache of compiled functions: kept for the next process, dropped when any source changed."""

import pickle
from pathlib import Path

import pytest

from chunkfit.scheduler import compiled
from chunkfit.scheduler.cost.look_up import bound_ticks
from chunkfit.scheduler.policies.registry import decide

pytestmark = pytest.mark.skipif(not compiled.COMPILES, reason="nothing is compiled here")


@pytest.mark.parametrize("function", [decide, bound_ticks])
def test_the_digest_of_all_sources_is_part_of_the_version(function):
    assert function._cache._cache_file._version.endswith(" " + compiled.sources_digest())


def test_a_changed_source_is_compiled_again(tmp_path):
    """numba drops an index of another version: what `compiled` relies on."""
    file = cache_file(tmp_path, "one")
    file.save("key", b"code")
    assert cache_file(tmp_path, "one").load("key") == b"code"
    assert cache_file(tmp_path, "two").load("key") is None


def test_an_index_of_another_release_is_not_unpickled(tmp_path):
    """It may name modules that this release does not have."""
    file = cache_file(tmp_path, "one")
    file.save("key", b"code")
    index = Path(file._index_path)
    index.write_bytes(pickle.dumps("one") + b"cno_such_module\nAny\n.")
    assert cache_file(tmp_path, "two").load("key") is None
    with pytest.raises(ModuleNotFoundError):
        cache_file(tmp_path, "one").load("key")


def cache_file(folder, version):
    file = type(decide._cache._cache_file)(folder, "f", "stamp")
    file._version = version
    return file


def test_without_a_folder_for_the_cache_it_compiles_all_the_same():
    """A function of no file stands for a file in a folder that cannot be written."""
    names = {}
    exec("def twice(x):\n    return 2 * x", names)
    twice = compiled.compiled(names["twice"])
    assert twice(21) == 42
    assert twice.signatures
