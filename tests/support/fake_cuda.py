"""Tensors that say they are on a GPU, on any build of torch, without values and without memory."""

from contextlib import contextmanager

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

CUDA = torch.device("cuda:0")
_READ_BACK = {getattr(torch.Tensor, f"__{name}__") for name in ("bool", "int", "index", "float")}


@contextmanager
def fake_cuda():
    """Inside, `CUDA` works as a device. Mixing devices, reading a value back and indexing by a mask raise.

    A build of torch without CUDA runs almost everything on fake CUDA tensors. What it does not is
    whatever asks for the device's guard in C++ before it dispatches ("not linked with support for cuda
    devices"): indexing with [], copy_, addmm into a tensor, ~, int(). Those go to the operators that they
    stand for; pinning of host memory does nothing and `is_set_to` is answered here, since no fake tensor knows
    either.
    """
    with FakeTensorMode(), _WithoutGuards():
        yield


class _WithoutGuards(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__:
            return _view(*args)
        if func is torch.Tensor.__setitem__:
            tensor, index, value = args
            return torch.ops.aten.copy_.default(_view(tensor, index), value)
        if func is torch.addmm and kwargs and kwargs.get("out") is not None:
            return torch.ops.aten.copy_.default(kwargs["out"], torch.addmm(*args))
        if func is torch.Tensor.copy_:
            return torch.ops.aten.copy_.default(*args, **(kwargs or {}))
        if func is torch.Tensor.is_set_to:
            return same_memory(*args)
        if func is torch.Tensor.__invert__:
            return torch.bitwise_not(*args)
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func in _READ_BACK:
            return args[0].item()  # raises: a fake tensor has no value
        return func(*args, **(kwargs or {}))


def same_memory(one, other):
    """`is_set_to` for tensors without memory."""
    (where, *layout), (other_where, *other_layout) = (
        (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride())
        for tensor in (one, other)
    )
    return where == other_where and layout == other_layout


def _view(tensor, index):
    """tensor[index] for numbers, slices, None and ..., by the operators that make it up."""
    parts = index if isinstance(index, tuple) else (index,)
    dim = 0
    for at, part in enumerate(parts):
        if part is ...:
            dim = tensor.dim() - sum(later is not None for later in parts[at + 1 :])
        elif part is None:
            tensor, dim = tensor.unsqueeze(dim), dim + 1
        elif isinstance(part, slice):
            step = 1 if part.step is None else part.step
            tensor, dim = torch.ops.aten.slice.Tensor(tensor, dim, part.start, part.stop, step), dim + 1
        elif isinstance(part, int):
            tensor = tensor.select(dim, part)
        else:
            raise TypeError(f"index {part!r}: a mask makes the host wait for the device; other tensors: not needed yet")
    return tensor
