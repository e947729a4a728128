"""How many bytes of new tensors are alive at once while a piece of code runs."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary


class Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the tensors that are made within its block: their bytes now, and at most. Sizes do, on "meta".

    >>> import torch
    >>> with Live() as live:
    ...     y = torch.zeros(1000) + 1
    ...     del y
    >>> live.now, live.peak
    (0, 8000)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = self.largest = 0
        self._known: Any = WeakIdKeyDictionary()

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
        size = storage.nbytes()
        self._known[storage] = _Held(self, size)
        self.now += size
        self.peak, self.largest = max(self.peak, self.now), max(self.largest, size)


class _Held:
    """Lives as long as the storage it stands for."""

    def __init__(self, live: Live, size: int) -> None:
        self.live, self.size = live, size

    def __del__(self) -> None:
        self.live.now -= self.size
