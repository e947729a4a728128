"""What the processes of an optimiser agree on before the first step: settings, and the model to start from."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from crossgrad._processes.group import Group
from crossgrad.algorithms import Algorithm
from crossgrad.graphs import AnyGraph


def agreed_settings(model: nn.Module, algorithm: Algorithm[Any], graph: AnyGraph, personal: Sequence[str]) -> str:
    """A text of everything that decides which messages are sent and how large they are."""
    tensors = [(tuple(t.shape), str(t.dtype), t.requires_grad) for t in (*model.parameters(), *model.buffers())]
    first = graph.at(0).weights
    return repr(
        (tensors, algorithm, graph.name, graph.agents, first.indices.tolist(), first.data.tolist(), tuple(personal))
    )


@torch.no_grad()
def take_over_start(group: Group, model: nn.Module, personal: set[str]) -> None:
    """Start from rank 0's module, including frozen parameters and buffers, except for what is personal.

    Collective: every process must call it. Warns in processes whose own module was another.
    """
    replaced = False
    for name, own in (*model.named_parameters(), *model.named_buffers()):
        if name in personal:
            continue
        theirs = own.detach().clone(memory_format=torch.contiguous_format)
        group.broadcast(theirs)
        replaced = replaced or not torch.equal(theirs, own)
        own.copy_(theirs)
    if replaced:
        warnings.warn(
            f"the model of rank {group.rank} differed from that of rank 0 and was replaced by it. Seed all processes "
            "alike; load a state dict of this agent after the optimiser is made, or pass keep_own_start=True.",
            stacklevel=3,
        )
