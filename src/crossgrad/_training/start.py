"""The start of a run: given parameters, data held out for validation, the task inferred from labels."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crossgrad._numerics.seeding import generator
from crossgrad._processes.group import Group
from crossgrad.data import Samples, refuse_streams
from crossgrad.tasks import Classification, Task, infer_task


def started_from(model: nn.Module, start: Mapping[str, Tensor]) -> nn.Module:
    """Return a copy of the module with the parameters and buffers of a state dict.

    Raises:
        ValueError: names or shapes are not those of the module.
    """
    module = copy.deepcopy(model)
    own = module.state_dict()
    wrong = sorted(name for name in own.keys() | start.keys() if _shape(own, name) != _shape(start, name))
    if wrong:
        name = wrong[0]
        raise ValueError(
            f"start must have the names and shapes of the model's own state dict; {name} is {_shape(own, name)} there "
            f"and {_shape(start, name)} here, and {len(wrong)} differ in all. Load it into the model yourself if only "
            f"a part is wanted."
        )
    module.load_state_dict(dict(start))
    return module


def _shape(state: Mapping[str, Tensor], name: str) -> str:
    return str(tuple(state[name].shape)) if name in state else "missing"


def hold_out(
    agents: Sequence[Samples], validation: Any, seed: int, purpose: str = "validation"
) -> tuple[Sequence[Samples], Sequence[Samples] | None]:
    """Return the agents' training samples, and those held out for validation or for tests.

    Args:
        agents: each agent's samples.
        validation: None; a share from 0 to 1 of each agent's samples, drawn at random, one at least; a list with one
            data set per agent; or one data set for all.
        seed: of the draw.
        purpose: what the data is held out for: the name of the argument, "validation" or "own_test".

    Raises:
        ValueError: the share is out of range, or leaves an agent with nothing to train on.
    """
    if validation is None:
        return agents, None
    one = [validation] if not isinstance(validation, list | int | float) else validation
    if isinstance(one, list):
        refuse_streams(held_data := [Samples.of(own) for own in one], f"{purpose} data is read whole, so it")
    else:
        refuse_streams(agents, f"{purpose} = {validation} holds out a share of each agent's samples, so it")
    if isinstance(validation, list):
        if len(validation) != len(agents):
            raise ValueError(f"{purpose} must have one data set per agent, {len(agents)}; found {len(validation)}.")
        return agents, held_data
    if not isinstance(validation, int | float):
        return agents, held_data * len(agents)
    if not 0 < validation < 1:
        raise ValueError(f"{purpose} must be a share above 0 and below 1, or data; found {validation}.")
    kept, held = [], []
    for agent, own in enumerate(agents):
        count = max(1, round(validation * len(own)))
        if count >= len(own):
            raise ValueError(
                f"every agent must have something to train on; {purpose} = {validation} leaves agent {agent}, who has "
                f"{len(own)} samples, nothing to train on. Use a smaller share, or pass data."
            )
        order = generator(seed, purpose, agent).permutation(len(own))
        held.append(own.take(torch.from_numpy(order[:count])))
        kept.append(own.take(torch.from_numpy(order[count:])))
    return kept, held


def inferred_task(agents: Sequence[Samples], group: Group) -> Task:
    """The task of all agents' labels, those of other processes included."""
    task = infer_task([own.labels for own in agents])
    most = int(group.gather(torch.tensor([[float(task.classes or 0)]] * len(agents))).max())
    return task if task.classes is None else Classification(most)
