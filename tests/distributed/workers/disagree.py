"""Processes that bring unlike experiments, or unlike models, to one run."""

import sys

from torch import nn

import crossgrad


def noticed(attempt):
    """Whether this process was told that the others have brought something else."""
    try:
        attempt()
    except ValueError as error:
        print(f"rank {group.rank}: {error}\n", end="")
        return True
    return False


with crossgrad.process_group() as group:
    graph, width = crossgrad.ring(group.processes), 5 if group.rank == 1 else 4
    experiments = noticed(lambda: group.agree(f"the experiment of rank {group.rank}"))
    models = noticed(lambda: crossgrad.optim.CGA(nn.Linear(3, width), graph=graph))
    hyper_parameters = noticed(lambda: crossgrad.optim.CGA(nn.Linear(3, 4), graph=graph, momentum=0.1 * width))
sys.exit(0 if experiments and models and hyper_parameters else "nobody noticed")
