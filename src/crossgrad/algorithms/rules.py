"""The update rules of `torch.optim` as frozen dataclasses, with PyTorch's options and defaults.

>>> RULES["adamw"]()
AdamW(betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, amsgrad=False)
"""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from crossgrad._registry.entries import as_class
from crossgrad._registry.registry import Registry

# Rules that treat every number by itself: an agent's flat vector is then as good as its list of tensors.
NUMBER_BY_NUMBER: tuple[type[torch.optim.Optimizer], ...] = (
    torch.optim.AdamW, torch.optim.Adam, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax,
    torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.RMSprop, torch.optim.Rprop, torch.optim.ASGD,
    torch.optim.SGD,
)  # fmt: skip
HOW_TO_RUN = {"params", "lr", "maximize", "foreach", "fused", "capturable", "differentiable"}  # not part of the rule


class OptimRule:
    """A rule of `torch.optim` and its options; the step size is the run's."""

    optimiser: type[torch.optim.Optimizer]

    def over(self, parts: Mapping[float, Sequence[torch.Tensor]]) -> torch.optim.Optimizer:
        """A new optimiser of this kind over these tensors, which are grouped by step size."""
        options = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        groups = [{"params": list(tensors), "lr": lr} for lr, tensors in parts.items()]
        return self.optimiser(groups, foreach=False, **options)  # type: ignore[call-arg]


def _rule(optimiser: type[torch.optim.Optimizer]) -> Any:
    """A frozen dataclass with the options of this optimiser."""
    options = [p for p in inspect.signature(optimiser).parameters.values() if p.name not in HOW_TO_RUN]
    fields = [
        (p.name, _type_of_option(p.default), dataclasses.field(default=_float_for_int(p.default))) for p in options
    ]
    made = dataclasses.make_dataclass(optimiser.__name__, fields, bases=(OptimRule,), frozen=True)
    made.__doc__ = f"The rule of `torch.optim.{optimiser.__name__}`."
    made.__module__ = __name__
    made.optimiser = optimiser  # type: ignore[attr-defined]
    return made


def _type_of_option(default: Any) -> Any:
    return tuple[float, float] if isinstance(default, tuple) else type(_float_for_int(default))


def _float_for_int(default: Any) -> Any:
    return float(default) if isinstance(default, int) and not isinstance(default, bool) else default


RULES: Registry[Any] = Registry(
    "optim-rule",
    {optimiser.__name__.lower(): _rule(optimiser) for optimiser in NUMBER_BY_NUMBER},
    lambda name, thing: as_class("optim-rule", name, thing, ("over",)),
)
AdamW = RULES["adamw"]
