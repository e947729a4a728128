"""The batched pass as compiled code: faster after some seconds of compilation, and checked on every new shape.

M: gradients, B: samples of a batch, D: parameters.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from crossgrad.models.flat import FlatModel
from crossgrad.tasks import Task

COMPILED_PIECE_BYTES = 2 << 20  # of models in one call, so that they stay in the cache

Pass = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class Compiled:
    """A pass by torch.compile that is compared with `plain`, the same without compilation, on every new shape.

    PyTorch 2.13 silently produced zero gradients for some convolutions. Where the compiled pass fails or differs,
    `plain` is used from then on, with a warning.
    """

    def __init__(
        self,
        model: FlatModel,
        task: Task,
        plain: Pass,
        inputs: Tensor,
        labels: Tensor,
    ) -> None:
        self.plain, self.trusted = plain, True
        self.rows = max(2, COMPILED_PIECE_BYTES // (sum(model.sizes) * model.start.element_size()))
        self.seen: set[tuple[int, ...]] = set()
        self.compiled: Pass = torch.compile(_many(model, task), dynamic=True)
        self(torch.stack([model.start] * 3), torch.stack([inputs] * 3), torch.stack([labels] * 3))

    def __call__(self, x_MD: Tensor, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        shape = (len(x_MD), *inputs.shape[1:])
        if self.trusted and shape not in self.seen:
            self.seen.add(shape)
            return self._compared(x_MD, inputs, labels)
        return self._pieces(x_MD, inputs, labels) if self.trusted else self.plain(x_MD, inputs, labels)

    def _compared(self, x_MD: Tensor, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        expected = self.plain(x_MD, inputs, labels)
        try:
            found = self._pieces(x_MD, inputs, labels)
            why = "" if _close(found[0], expected[0]) else "its gradients differ from the plain ones"
        except Exception as error:  # a compiler may fail in any way
            why = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        if why:
            self.trusted = False
            warnings.warn(f"compilation is left out, and the run goes on without it: {why}.", stacklevel=2)
        return expected if why else found

    def _pieces(self, x_MD: Tensor, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        if len(x_MD) == 1:  # would be compiled anew
            g, losses = self._pieces(*(part.repeat(2, *[1] * (part.dim() - 1)) for part in (x_MD, inputs, labels)))
            return g[:1], losses[:1]
        pieces = -(-len(x_MD) // self.rows)
        cut = (torch.tensor_split(part, pieces) for part in (x_MD, inputs, labels))
        parts = [self.compiled(*piece) for piece in zip(*cut, strict=True)]
        return torch.cat([g for g, _ in parts]), torch.cat([losses for _, losses in parts])


def _many(model: FlatModel, task: Task) -> Pass:
    names = model.names

    def one(x_D: Tensor, inputs_B: Tensor, labels_B: Tensor) -> Tensor:
        named = dict(zip(names, model.views(x_D), strict=True))
        return task.batch_loss(
            lambda *inputs, **more: functional_call(model.module, named, inputs, more), inputs_B, labels_B
        )

    many: Pass = vmap(grad_and_value(one))
    return many


def _close(found_MD: Tensor, expected_MD: Tensor) -> bool:
    """Whether gradients agree row by row, up to the rounding of sums; what is not finite must be so in both."""
    scale = expected_MD.nan_to_num(0.0, 0.0, 0.0).abs().amax(dim=1, keepdim=True)
    close = (found_MD - expected_MD).abs() <= 1e-3 * expected_MD.abs() + 1e-5 * scale
    return bool((close | (found_MD.isfinite().logical_not() & expected_MD.isfinite().logical_not())).all())
