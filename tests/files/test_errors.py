"""An error that a process tells its parent, by class name and message."""

import pytest

from chunkfit.files.errors import ChunkfitError, DeviceMemoryError, error_of, message_of


def test_an_error_comes_out_as_it_went_in():
    back = error_of(message_of(DeviceMemoryError("no room")))
    assert (type(back), str(back)) == (DeviceMemoryError, "no room")


@pytest.mark.parametrize("name", ["NoSuchError", "annotations", "error_of"])
def test_a_class_that_is_not_known_becomes_the_base(name):
    back = error_of({"error": name, "message": "text"})
    assert (type(back), str(back)) == (ChunkfitError, "text")
