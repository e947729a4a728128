"""Counts the bytes of the tensors that a piece of code makes."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
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
        self._known: Any = WeakIdKeyDictionary()  # storages

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor):
                self._known.setdefault(tensor.untyped_storage(), None)
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and tensor.untyped_storage() not in self._known:
                self._count(tensor.untyped_storage())
        return made

    def _count(self, storage: Any) -> None:
        self._known[storage] = _Held(self, storage.nbytes())
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)


class _Held:
    """Lives as long as the storage it stands for."""

    def __init__(self, live: LiveBytes, size: int) -> None:
        self.live, self.size = live, size

    def __del__(self) -> None:
        self.live.now -= self.size
