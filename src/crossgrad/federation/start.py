"""A site's training, ready for its first step: model, data and sizes of the federation's file."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from crossgrad import models
from crossgrad._training.callbacks import Callbacks
from crossgrad.data import Samples, split
from crossgrad.federation.file import Federation
from crossgrad.federation.group import SiteGroup
from crossgrad.federation.training import SiteTraining
from crossgrad.tasks import METRICS, Task, as_metrics


class SiteData(NamedTuple):
    """What one site trains and tests on, for which task, and how many samples every site holds."""

    own: Samples
    test: Samples | None
    task: Task
    sizes: Sequence[int]
    private: bool = False  # the site's own, and no part of the experiment's data set


def data_of_experiment(federation: Federation) -> list[SiteData]:
    """Every site's part of the experiment's data set, as `crossgrad run` would deal it out."""
    experiment = federation.experiment
    data = experiment.data.load()
    train = data.train
    task = experiment.task_for(train.labels)
    dealt = experiment.partition(task.kinds(train.labels), experiment.agents, experiment.seed, task.classes)
    parts = split(train, dealt)
    sizes = [len(part) for part in parts]
    return [SiteData(part, data.test, task, sizes) for part in parts]


def data_of_versions(versions: Sequence[Federation]) -> list[SiteData]:
    """Every site's part of the experiment's data set, as it was dealt out in the first version that has the site."""
    dealt: list[SiteData] = []
    for federation in versions:
        dealt += data_of_experiment(federation)[len(dealt) :]
    return dealt


def sizes_of(federation: Federation, data: SiteData) -> Sequence[int]:
    """How many samples every site holds; for sites that a later version has added, the file's number or our own."""
    if len(data.sizes) >= len(federation.sites):
        return data.sizes
    stated = [entry.samples for entry in federation.sites if entry.samples is not None]
    if len(stated) == len(federation.sites):
        return stated
    return [*data.sizes, *[len(data.own)] * (len(federation.sites) - len(data.sizes))]


def start(federation: Federation, agent: int, data: SiteData) -> SiteTraining:
    """The training of one site; every site begins with the same model."""
    experiment = federation.experiment
    if experiment.training.threads is not None:
        torch.set_num_threads(experiment.training.threads)
    task = data.task.with_metrics(as_metrics(experiment.metrics or (), METRICS, data.task.metrics))
    module = models.build(experiment.model, data.own.shape, task.outputs, experiment.seed)
    group = SiteGroup(agent, sizes_of(federation, data))
    training = SiteTraining(
        module,
        [data.own],
        experiment.method,
        federation.graph,
        experiment.settings(),
        data.test,
        task,
        group,
        augment=experiment.data.augment,
    )
    training.callbacks = Callbacks.named(experiment.callbacks or ())
    return training
