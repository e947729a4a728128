"""What a user passes to `fit` as data, divided over the agents: to train on, to test on and to validate by."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from crossgrad._training.arguments import as_task
from crossgrad._training.start import hold_out
from crossgrad.data import Samples, as_rule, given, refuse_streams, split
from crossgrad.data.arrays import is_list_of_agents
from crossgrad.tasks import Task


def dealt_data(
    data: Any, partition: Any, agents: int, seed: int, task: Any, loss: Any
) -> tuple[Sequence[Samples], Task]:
    """Each agent's samples, and what is learnt from them.

    Args:
        data: one data set, or a list with one for each agent.
        partition: how one data set is divided; None: IID.
        agents: how many agents it is divided over.
        seed: seed of the division.
        task: what is learnt, or its name; None: inferred from the labels.
        loss: replaces the task's own loss.

    Raises:
        ValueError: the data is divided already, cannot be divided so, or does not suit the task.
    """
    if is_list_of_agents(data):
        if partition is not None:
            raise ValueError(
                "data must be one data set to be divided; found a list with one for each agent. Leave `partition` out."
            )
        listed: Sequence[Samples] = given(data)
        return listed, as_task(task, loss, [own.labels for own in listed])
    samples = Samples.of(data)
    refuse_streams([samples], "A partition deals out samples by their numbers, so it")
    task = as_task(task, loss, [samples.labels])
    task.check_labels(samples.labels)
    deal = as_rule(partition)
    return split(samples, deal(task.kinds(samples.labels), agents, seed, task.classes)), task


class HeldOut(NamedTuple):
    """Samples to train on, and those that were held out."""

    agents: Sequence[Samples]  # each agent's own, to train on
    test: Samples | None  # common test data
    own_test: Sequence[Samples] | None  # each agent's own test data
    validation: Sequence[Samples] | None


def held_out_data(agents: Sequence[Samples], test: Any, own_test: Any, validation: Any, seed: int) -> HeldOut:
    """Hold out shares of the agents' samples, or take the data that is given for it.

    Args:
        agents: each agent's samples.
        test: common test data; or a list with each agent's own, as `own_test`.
        own_test: a list with each agent's own test data, or the share of its samples to hold out.
        validation: data, or a share, in the same way.
        seed: seed of what is held out.
    """
    if is_list_of_agents(test):
        if own_test is not None:
            raise ValueError(
                "each agent's own test data must be given once; found a list as test, and own_test. Leave out one."
            )
        test, own_test = None, test
    common = None if test is None else Samples.of(test)
    refuse_streams([] if common is None else [common], "test data is read whole at every evaluation, so it")
    agents, own_tests = hold_out(agents, own_test, seed, "own_test")
    agents, kept_out = hold_out(agents, validation, seed)
    return HeldOut(agents, common, own_tests, kept_out)
