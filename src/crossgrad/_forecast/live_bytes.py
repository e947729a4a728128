"""Counts the bytes of the tensors that a piece of code makes."""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within its `with` block: the bytes of tensors made there that are held now, and at most (`peak`).

    Tensors that existed before do not count, nor does what other libraries (NumPy) make.

    >>> import torch
    >>> with LiveBytes() as live:
    ...     _ = torch.zeros(100) + 1
    >>> live.now, live.peak
    (400, 800)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._held: Any = WeakIdKeyDictionary()  # by storage

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here. Without this answer PyTorch would import its compiler, which takes a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        given = {tensor.untyped_storage()._cdata for tensor in _tensors_among((*args, *(kwargs or {}).values()))}
        for tensor in _tensors_among((made,)):
            if (storage := tensor.untyped_storage())._cdata not in given:
                given.add(storage._cdata)
                self._count(storage)
        return made

    def _count(self, storage: Any) -> None:
        self._held[storage] = _Held(self, storage.nbytes())
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)


def _tensors_among(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among the arguments or results of an operation, which are lists at most one deep."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors_among(value)


class _Held:
    """An object that lives as long as the storage whose bytes it counts."""

    def __init__(self, live: LiveBytes, size: int) -> None:
        self.live, self.size = live, size

    def __del__(self) -> None:
        self.live.now -= self.size
