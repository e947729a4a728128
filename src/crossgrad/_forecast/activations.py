"""How many bytes a pass through a model holds at most, besides parameters, gradients and inputs."""

import copy
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from crossgrad.data import Samples
from crossgrad.data.nested import Nested, Placement, leaves, mapped
from crossgrad.tasks.outputs import call

MEASURED_SAMPLES = (2, 4)  # samples of the passes that are measured


class Activations(NamedTuple):
    """The most bytes that a pass holds: a fixed part, and a part for each sample."""

    training: tuple[float, float] = (0.0, 0.0)
    evaluation: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, module: nn.Module, samples: Samples, dtype: torch.dtype) -> "Activations":
        """Measure passes on copies of the first sample; the module is left as it was."""
        module, place = copy.deepcopy(module).to(dtype).train(), Placement(dtype=dtype)
        one = place(samples.piece(0, 1)[0])
        few, more = (_held(module, mapped(partial(_repeated, count), one)) for count in MEASURED_SAMPLES)
        return cls(_straight_line(few[0], more[0]), _straight_line(few[1], more[1]))

    def of_a_pass(self, samples: int) -> float:
        """Bytes of a forward and backward pass."""
        return self.training[0] + samples * self.training[1]

    def of_an_evaluation(self, samples: int) -> float:
        """Bytes of a forward pass that keeps nothing."""
        return self.evaluation[0] + samples * self.evaluation[1]


def _repeated(count: int, part: Tensor) -> Tensor:
    return part.repeat(count, *(1 for _ in part.shape[1:]))


def _held(module: nn.Module, inputs: Nested) -> tuple[int, int]:
    """Bytes of a training pass and of an evaluation.

    A training pass keeps what its backward pass needs; at its peak, that also holds the gradients of the largest result
    and of the largest parameter. An evaluation holds the inputs and the outputs of one layer.
    """
    known = {part.untyped_storage().data_ptr() for part in (*module.parameters(), *module.buffers(), *leaves(inputs))}
    kept: dict[int, Tensor] = {}
    layers = [0]

    def keep(part: Tensor) -> Tensor:
        kept[part.untyped_storage().data_ptr()] = part.detach()  # held, so that its address is not reused
        return part

    def passed(layer: nn.Module, before: tuple[Any, ...], after: Any) -> None:
        layers.append(sum(part.nbytes for part in (*before, after) if isinstance(part, Tensor)))

    for layer in module.modules():
        if not list(layer.children()):
            layer.register_forward_hook(passed)
    with (
        torch.random.fork_rng(devices=[]),
        torch.enable_grad(),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda part: part),
    ):
        call(module, inputs)
    sizes = [part.untyped_storage().nbytes() for place, part in kept.items() if place not in known]
    return sum(sizes) + max(sizes, default=0) + max(p.nbytes for p in module.parameters()), max(layers)


def _straight_line(few: float, more: float) -> tuple[float, float]:
    """The straight line through both measurements; its slope is not negative."""
    each = max(0.0, (more - few) / (MEASURED_SAMPLES[1] - MEASURED_SAMPLES[0]))
    return max(0.0, few - MEASURED_SAMPLES[0] * each), each
