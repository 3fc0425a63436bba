"""A network of PyTorch as the vector of a job. Extra: ``torch``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from blindsum.arrays import Vector
from blindsum.errors import ConfigError
from blindsum.layouts import DTYPES, Entry, HeldModel, Predicate, takes


class ModelVector(HeldModel):
    """The tensors of a network that take part in a job, as one vector.

    Parameters come first, then buffers, each in the order of the network. Weights that are tied stand there
    once, under their first name. Buffers of integers, such as BatchNorm's ``num_batches_tracked``, and
    buffers that are in no ``state_dict`` stay as they are at each party. Networks inside
    ``DistributedDataParallel`` or ``torch.compile`` have the names that they have without.

    Parameters
    ----------
    net
        A ``torch.nn.Module``, on any device. It may move to another one later.
    parameters
        Which parameters take part: ``"trainable"`` those that require a gradient, so that frozen layers stay
        at home and of LoRA the adapters alone are sent; ``"all"``; or a function of a name and a parameter.
    buffers
        ``"float"``: buffers of floats take part, such as BatchNorm's running mean; ``"none"``.

    Raises
    ------
    blindsum.ConfigError
        Nothing takes part, or a parameter that cannot: of integers, complex, sparse, without memory.

    Examples
    --------
    ::

        vector = ModelVector(net)
        with bs.join(url, job="tumour", identity="hospital-a", ca="ca.pem", layout=vector) as job:
            for rnd in job.rounds():
                vector.load(rnd.model)
                train(net, loader, **job.parameters)
                rnd.submit(vector.change(), weight=len(data))
    """

    def __init__(
        self,
        net: Any,
        *,
        parameters: Literal["trainable", "all"] | Predicate = "trainable",
        buffers: Literal["float", "none"] = "float",
    ) -> None:
        import torch

        if not isinstance(net, torch.nn.Module):
            raise ConfigError("net", f"must be a torch.nn.Module, not a {type(net).__name__}")
        if buffers not in ("float", "none"):
            raise ConfigError("buffers", f"{buffers!r} must be 'float' or 'none'")
        net = _inner(net)
        self._homes: list[tuple[Any, str]] = []
        entries, seen = [], set[tuple[object, ...]]()
        for name, module, leaf, tensor in _taking_part(net, parameters, buffers):
            _check(name, tensor)
            memory = _memory(tensor)
            if tensor.numel() == 0 or memory in seen:
                continue
            seen.add(memory)
            self._homes.append((module, leaf))
            entries.append(Entry(name, _dtype(tensor), tuple(tensor.shape)))
        super().__init__(
            entries,
            "ModelVector(net, parameters='all') takes frozen layers as well, as does requires_grad_(True)",
        )

    def _tensor(self, place: int) -> Any:
        """A tensor where it is now: buffers are others after a move to another device."""
        module, leaf = self._homes[place]
        tensor, entry = getattr(module, leaf).detach(), self._entries[place]
        if (_dtype(tensor), tuple(tensor.shape)) != (entry.dtype, entry.shape):
            rule = f"{entry.name} is {_dtype(tensor)} {tuple(tensor.shape)} now, was {entry.line} before"
            raise ConfigError("net", f"{rule}: make another ModelVector after a change of the network")
        return tensor

    def _write(self, place: int, values: Vector) -> None:
        import torch

        tensor = self._tensor(place)
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(_opened(values)).view(tensor.shape))

    def _read(self, place: int, into: Vector) -> None:
        import torch

        tensor = self._tensor(place)
        with torch.no_grad():
            # Straight to its place, from whatever device, element type and strides.
            torch.from_numpy(into).view(tensor.shape).copy_(tensor)


def _inner(net: Any) -> Any:
    """The network inside of what runs it."""
    import torch

    wrappers = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    while True:
        if isinstance(net, wrappers):
            net = net.module
        elif isinstance(getattr(net, "_orig_mod", None), torch.nn.Module):
            net = net._orig_mod
        else:
            return net


def _taking_part(net: Any, parameters: Any, buffers: str) -> Iterator[tuple[str, Any, str, Any]]:
    """Name, module, name in it, and tensor of each that takes part."""
    import torch

    for path, module in net.named_modules():
        for leaf, tensor in module.named_parameters(recurse=False):
            name = f"{path}.{leaf}" if path else leaf
            if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
                rule = f"{name} has no shape yet: run one batch through the network first"
                raise ConfigError("net", rule)
            if takes(parameters, name, tensor, tensor.requires_grad):
                yield name, module, leaf, tensor
    if buffers == "none":
        return
    stored = set(net.state_dict(keep_vars=True))
    for path, module in net.named_modules():
        for leaf, tensor in module.named_buffers(recurse=False):
            name = f"{path}.{leaf}" if path else leaf
            if name in stored and tensor.is_floating_point():
                yield name, module, leaf, tensor


def _check(name: str, tensor: Any) -> None:
    """Refuse what cannot be part of a vector."""
    import torch

    is_sparse = tensor.layout != torch.strided
    for is_so, what, advice in (
        (
            _dtype(tensor) not in DTYPES,
            f"is of {_dtype(tensor)}",
            "convert it, or leave it out by parameters=…",
        ),
        (is_sparse or tensor.is_quantized, "is sparse or quantised", "convert it, or leave it out"),
        (
            not is_sparse and any(stride == 0 for stride, _ in _dimensions(tensor)),
            "has elements that share memory",
            "give each its own by clone()",
        ),
        (tensor.is_meta, "has no memory (device meta)", "give it some: net.to_empty(device='cpu')"),
    ):
        if is_so:
            raise ConfigError("net", f"{name} {what}, and must be dense and of {', '.join(DTYPES)}: {advice}")


def _memory(tensor: Any) -> tuple[object, ...]:
    """Which memory it is: the same for a weight that is tied, also transposed or in another shape."""
    runs: list[tuple[int, int]] = []
    for stride, size in sorted(_dimensions(tensor)):
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0], runs[-1][1] * size)
        else:
            runs.append((stride, size))
    return tensor.data_ptr(), tensor.device, tensor.dtype, *runs


def _dimensions(tensor: Any) -> list[tuple[int, int]]:
    """Stride and size of each dimension that has more than one element."""
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    return [(stride, size) for stride, size in pairs if size > 1]


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


class _Opened:
    """Memory of a read-only array, for PyTorch, which takes no such array. It is only read."""

    def __init__(self, array: Vector) -> None:
        self.array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def _opened(array: Vector) -> Vector:
    return array if array.flags.writeable else np.asarray(_Opened(array))
