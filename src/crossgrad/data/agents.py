"""The samples each agent holds: divided by a partition, or given as they are."""

from collections.abc import Sequence

from crossgrad.data.partition import Partition
from crossgrad.data.types import Samples, Source


def split(samples: Samples, partition: Partition) -> list[Samples]:
    """The agents' own samples."""
    if len(samples) != partition.sizes.sum():
        raise ValueError(
            f"This partition is of {partition.sizes.sum()} samples, but there are {len(samples)}; "
            f"make it from the labels of these samples."
        )
    return [samples.take(held) for held in partition.indices]


def given(sources: Sequence[Source], classes: int | None = None) -> list[Samples]:
    """The agents' own samples, from one data set per agent: (X, y), Samples, or a map-style Dataset each.

    All know the same classes: as many as `classes` says, or else as the largest label of all says.

    >>> import torch
    >>> given([(torch.rand(2, 3), torch.tensor([0, 1])), (torch.rand(1, 3), torch.tensor([4]))])[0].classes
    5
    """
    if len(sources) == 0:
        raise ValueError("At least one agent is needed, but the list of data sets is empty.")
    agents = [_of_agent(agent, source, classes) for agent, source in enumerate(sources)]
    for agent, samples in enumerate(agents):
        if _kind(samples) != _kind(agents[0]):
            raise ValueError(
                f"All agents train one model, but agent {agent} has {_kind(samples)} and agent 0 has "
                f"{_kind(agents[0])}; give all the same."
            )
    if agents[0].classes is None:
        return agents
    most = max(samples.classes or 0 for samples in agents)
    return [Samples.of(samples, most) for samples in agents]


def _of_agent(agent: int, source: Source, classes: int | None) -> Samples:
    try:
        return Samples.of(source, classes)
    except ValueError as error:
        raise ValueError(f"Agent {agent}: {error}") from error


def _kind(samples: Samples) -> str:
    task = "regression" if samples.classes is None else "class"
    return f"inputs {samples.inputs.dtype} of shape {samples.shape} with {task} labels"
