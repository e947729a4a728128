"""The samples each agent holds: divided by a partition, or given as they are."""

from collections.abc import Sequence

from crossgrad.data.nested import mapped
from crossgrad.data.partition import Partition
from crossgrad.data.stream import refuse_streams
from crossgrad.data.types import Samples, Source


def split(samples: Samples, partition: Partition) -> list[Samples]:
    """The agents' own samples.

    Args:
        samples: all samples.
        partition: which agent holds which samples.
    """
    refuse_streams([samples], "A partition deals out samples by their numbers, so it")
    if len(samples) != partition.sizes.sum():
        raise ValueError(
            f"the partition must be of the {len(samples)} samples that there are; found one of "
            f"{partition.sizes.sum()}. Make it from the labels of these samples."
        )
    return [samples.take(held) for held in partition.indices]


def given(sources: Sequence[Source]) -> list[Samples]:
    """The agents' own samples, from one data set per agent: (X, y), Samples, or a map-style Dataset each.

    Args:
        sources: for each agent (X, y), Samples or a Dataset.

    >>> import torch
    >>> [len(own) for own in given([(torch.rand(2, 3), torch.tensor([0, 1])), (torch.rand(1, 3), torch.tensor([4]))])]
    [2, 1]
    """
    if len(sources) == 0:
        raise ValueError("the list of data sets must have one for each agent; found none. Pass at least one.")
    agents = [_of_agent(agent, source) for agent, source in enumerate(sources)]
    for agent, samples in enumerate(agents):
        if samples.layout() != agents[0].layout():
            raise ValueError(
                f"all agents train one model, so their samples must be of one kind; found "
                f"{_kind_of_samples(samples)} at "
                f"agent {agent} and {_kind_of_samples(agents[0])} at agent 0. Convert one of them."
            )
    return agents


def _of_agent(agent: int, source: Source) -> Samples:
    try:
        return Samples.of(source)
    except ValueError as error:
        raise ValueError(f"agent {agent}: {error}") from error


def _kind_of_samples(samples: Samples) -> str:
    inputs, labels = (
        mapped(lambda part: f"{part.dtype} of shape {tuple(part.shape[1:])}", side) for side in samples.piece(0, 1)
    )
    return f"inputs {inputs} with labels {labels}"
