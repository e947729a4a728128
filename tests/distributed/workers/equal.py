"""In one process: run every case and keep its numbers in REFERENCE. In several: run them again, list what differs.

The list is the file MISMATCHES.<processes>, written by rank 0; an empty one means the same bits.
"""

import faulthandler
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn

import crossgrad
from crossgrad._network import cross_gradients
from crossgrad._processes.group import Group, SingleProcess
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import ALGORITHMS, CGA, CHOCO, DPSGD, EDM, NGC, SGP, Gossip, RelaySGD, SwarmSGD, comp_cga
from crossgrad.codecs import Quantised, ScaledSign, TopK
from crossgrad.data import Dirichlet, Samples, load, split
from crossgrad.graphs import GRAPHS as GRAPH_SPECS
from crossgrad.graphs import Graph, GraphSequence, bipartite, chain, double_binary_tree, exponential, ring
from crossgrad.graphs.faults import Faults

faulthandler.dump_traceback_later(240, exit=True)
torch.set_num_threads(1)

GRAPHS = os.environ["GRAPHS"].split(",")
DATA = load("digits")
TEST = DATA.test.take(range(60))
BLOCK_BYTES = cross_gradients.BLOCK_BYTES
FAULTS = Faults(leave=0.1, away=2, straggle=0.2, drop=0.2, absences=((0, 2, 3), (1, 2, 3), (2, 2, 3), (4, 0, 2)))


class Case(NamedTuple):
    """A run, but for the processes it is spread over."""

    name: str
    algorithm: Any
    graph: Graph | GraphSequence
    model: Callable[[], nn.Module]
    block_bytes: int = BLOCK_BYTES  # of answers that are held at a time
    deterministic: bool = False  # tiny models have the same bits anyway
    faults: Faults = Faults()

    def start(self, group: Group) -> Training:
        """The run by agents with unlike amounts of data."""
        cross_gradients.BLOCK_BYTES = self.block_bytes
        own = owned(self.graph.agents)[group.shard(self.graph.agents).rows]
        with torch.random.fork_rng():
            torch.manual_seed(1)
            model = self.model()
        schedule, exactly = crossgrad.Exponential(0.05, 0.9), self.deterministic
        settings = TrainingSettings(schedule, batch_size=16, steps=4, evaluate_every=3, deterministic=exactly)
        return Training(model, own, self.algorithm, self.graph, settings, TEST, group=group, faults=self.faults)


@cache
def owned(agents: int) -> list[Samples]:
    train = DATA.train
    return split(train, Dirichlet(0.5)(train.labels.numpy(), agents, 0))


def plain() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 10))


def wide() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 500), nn.ReLU(), nn.Linear(500, 10))


def convolving() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.Flatten(), nn.Linear(64, 10))


def random_and_buffered() -> nn.Module:
    first = nn.Linear(64, 7)
    return nn.Sequential(nn.Flatten(), first, nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.3), nn.Linear(7, 10))


def cases() -> Iterator[Case]:
    """All algorithms on graphs of all kinds; then buffers, random layers, faults and answers in blocks."""
    for name in GRAPHS:
        graph = GRAPH_SPECS[name]().build(5, 0)
        for algorithm, make in ALGORITHMS.items():
            yield Case(f"{algorithm} on {name}", make(), graph, plain, deterministic=name != "ring")
    for algorithm in (CGA(momentum=0.9), comp_cga(0.9)):
        yield Case(f"wide layers, {algorithm}", algorithm, ring(5), wide, deterministic=True)
        yield Case(f"channels last, {algorithm}", algorithm, ring(5), convolving, deterministic=True)
    for name, algorithm, graph in (
        ("cga", CGA(momentum=0.9), ring(6)),
        ("compcga", comp_cga(0.9), bipartite(6)),
        ("a scale per tensor", CGA(momentum=0.9, codec=ScaledSign(per_tensor=True)), ring(5)),
        ("sgp", SGP(momentum=0.9), exponential(6)),
        ("edm", EDM(momentum=0.9), ring(6)),
        ("relaysgd", RelaySGD(momentum=0.9), chain(5)),
        ("relaysgd on two trees", RelaySGD(), double_binary_tree(6)),
        ("ngc without the second message", NGC(alpha=0), ring(6)),
        ("choco, the largest numbers", CHOCO(TopK(0.1), 0.3, momentum=0.9), ring(5)),
        ("edm, two rounds of four bits", Gossip(Quantised(4), rounds=2, chebyshev=True).around(EDM(0.9)), ring(6)),
        ("dpsgd, eight bits along a tree", Gossip(Quantised(8), tree=True).around(DPSGD()), ring(6)),
        ("swarm", SwarmSGD(matching=True, local_steps=3, geometric=True), ring(6)),
    ):
        yield Case(f"BatchNorm and dropout, {name}", algorithm, graph, random_and_buffered)
        if isinstance(algorithm, CGA):
            yield Case(f"one agent's answers at a time, {name}", algorithm, graph, random_and_buffered, 1)
    for algorithm, graph in ((comp_cga(0.9), ring(5)), (SGP(0.9), exponential(6)), (SwarmSGD(True, 2), ring(6))):
        yield Case(f"faults, {algorithm}", algorithm, graph, random_and_buffered, faults=FAULTS)


def numbers(training: Training) -> dict[str, Any]:
    """Train, and keep everything but the seconds."""
    records = [record.as_json() | {"seconds": 0} for record in training]
    state = [*training.state, training.buffers.floats_NF, training.buffers.integers_NI]
    sent = {kind: torch.from_numpy(amounts) for kind, amounts in training.traffic.by_edge.items()}
    average = [value.clone() for value in training.averaged_model().state_dict().values()]
    return {"records": records, "state": state, "sent": sent, "average": average}


def differences(training: Training, expected: dict[str, Any]) -> list[str]:
    """What this process finds unlike the run of one process."""
    found, shard = numbers(training), training.context.shard
    unlike = [name for name in ("records",) if found[name] != expected[name]]
    if not all(torch.equal(own, rows[shard.rows]) for own, rows in zip(found["state"], expected["state"], strict=True)):
        unlike.append("state")
    own_average = zip(found["average"], expected["average"], strict=True)
    if not all(torch.equal(a, b) for a, b in own_average if training.group.is_rank_0 or a.is_floating_point()):
        unlike.append("average")
    sender = torch.from_numpy(training.traffic.sender)
    ours = (sender >= shard.first) & (sender < shard.last)
    nothing = torch.zeros(len(sender), dtype=torch.int64)
    for kind in expected["sent"] | found["sent"]:
        if not torch.equal(found["sent"].get(kind, nothing), expected["sent"].get(kind, nothing) * ours):
            unlike.append(f"bytes of kind {kind}")
    return unlike


def keep() -> None:
    reference = {}
    for case in cases():
        try:
            training = case.start(SingleProcess())
        except ValueError:  # the algorithm needs another graph
            continue
        reference[case.name] = numbers(training)
    torch.save(reference, os.environ["REFERENCE"])


def compare(group: Group) -> None:
    reference = torch.load(os.environ["REFERENCE"])
    unlike = {}
    for case in cases():
        if case.name in reference:
            found = differences(case.start(group), reference[case.name])
            everybody = group.gather(torch.tensor([[float(len(found))]]))
            if everybody.any():
                unlike[case.name] = found or ["seen by another process"]
    if group.is_rank_0:
        with open(f"{os.environ['MISMATCHES']}.{group.processes}", "w") as file:
            json.dump({"compared": list(reference), "unlike": unlike}, file)


if __name__ == "__main__":
    with crossgrad.process_group() as group:
        keep() if group.processes == 1 else compare(group)
