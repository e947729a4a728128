"""Record every message of some runs, and write what breaks the rules to MISMATCHES (one agent per process, or two)."""

import faulthandler
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import distributed_c10d as c10d

import crossgrad
from crossgrad._network.shard import holder
from crossgrad._network.wire import kind_code
from crossgrad._processes.group import Group
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import ALGORITHMS
from crossgrad.algorithms.api import diagnostics_of
from crossgrad.data import Dirichlet, Samples, load, split
from crossgrad.graphs import bipartite, exponential, one_peer_exponential, random_matchings, ring

faulthandler.dump_traceback_later(240, exit=True)
torch.set_num_threads(1)

OWN_COLUMNS = ("samples", "first_bad_step", "loss", "distance", "train_loss", "gradients")  # of a run without test data
KINDS = ("model", "buffer", "weight", "tracker", "gradient", "code")
POINT_TO_POINT = ("isend", "irecv", "send", "recv")
TOGETHER = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
    "batch_isend_irecv",
]
STEPS = 3


class Message(NamedTuple):
    """One call of torch.distributed."""

    call: str
    tensor: Tensor
    peer: int | None
    content: bytes  # of what is sent; what is received is not there yet


log: list[Message] = []


def listen(name: str) -> None:
    """Let torch.distributed write down the calls of this function."""
    original = getattr(dist, name)

    def heard(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        tensor = next((each for each in given if isinstance(each, Tensor)), torch.zeros(0))
        peer = given[1] if name in POINT_TO_POINT else None
        log.append(Message(name, tensor, peer, tensor.numpy().tobytes() if name == "isend" else b""))
        return original(*args, **kwargs)

    for module in (dist, c10d):
        setattr(module, name, heard)


def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.ReLU(), nn.Linear(7, 10))


def model_with_buffers() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 10))


D, D_BUFFERS, F = 535, 549, 14  # parameters of the two, and floating numbers in the second one's buffers
CODE = [67, 4]  # bytes of 535 bits and a scale


class Form(NamedTuple):
    """What a message may be: of this kind, with so many bytes of numbers in so many bytes."""

    kind: str
    numbers: int
    length: int


def form(kind: str, *parts: int) -> Form:
    """A header of 64 bytes, each part filled up to a multiple of 8, and 8 bytes at the end."""
    return Form(kind, sum(parts), 64 + sum(-(-part // 8) * 8 for part in parts) + 8)


def kind_of(message: Message) -> str:
    """What the header of a message that is sent says."""
    code = int.from_bytes(message.content[8:16], "little")
    return next(kind for kind in KINDS if kind_code(kind) == code)


def secrets(own: list[Samples]) -> list[bytes]:
    """The bytes of every sample and of every run of eight labels, in the types in which they might be sent."""
    found = []
    for samples in own:
        pixels = samples.inputs.reshape(len(samples), -1)
        for kind in (torch.float32, torch.float64):
            found += [row.to(kind).numpy().tobytes() for row in pixels]
        for kind in (torch.int64, torch.int32, torch.uint8, torch.float32, torch.float64):
            runs = samples.labels.to(kind).unfold(0, 8, 1)
            found += [row.numpy().tobytes() for row in runs if row.unique().numel() > 2]
    return found


def breaches(
    training: Training, own: list[Samples], allowed: list[Form], needed: list[Form], group: Group
) -> tuple[list[str], int]:
    """Train, and say which messages break a rule; also the bytes that were sent."""
    said, graph, private = [], training.graph, secrets(own)
    seen, sent_bytes = set(), 0
    for step in range(STEPS):
        log.clear()
        training.step()
        batches = [batch.labels.numpy().tobytes() for batch in training.oracle.current.values()]
        pattern = graph.at(step).weights.tocoo()
        ranks = {agent: holder(agent, graph.agents, group.processes) for agent in range(graph.agents)}
        hears = {(ranks[j], ranks[l]) for j, l in zip(pattern.row.tolist(), pattern.col.tolist(), strict=True)}
        for message in log:
            if message.call not in ("isend", "irecv"):
                said.append(f"{message.call} in a step")
                continue
            pair = (message.peer, group.rank) if message.call == "isend" else (group.rank, message.peer)
            if pair not in hears:
                said.append(f"{message.call} between {group.rank} and {message.peer}, who hold no neighbours")
            fitting = [one for one in allowed if one.length == message.tensor.nbytes]
            if message.call == "isend":
                fitting = [one for one in fitting if one.kind == kind_of(message)]
                sent_bytes += fitting[0].numbers if fitting else 0
                seen |= set(fitting)
            if not fitting or message.tensor.dtype != torch.uint8:
                said.append(f"{message.call} of {message.tensor.nbytes} bytes")
            if any(secret in message.content for secret in [*private, *batches]):
                said.append(f"{message.call} has a sample or labels in it")
    return said + [f"no message of {one}" for one in needed if one not in seen], sent_bytes


def at_evaluation(training: Training, own: list[Samples], size: int) -> list[str]:
    """What passes at an evaluation: sums of models and buffers, rank 0's counts, a few numbers per agent."""
    log.clear()
    training.evaluate()
    floats, integers = training.buffers.floats_NF.shape[1], training.buffers.integers_NI.shape[1]
    columns = len(OWN_COLUMNS) + len(training.traffic.kinds) + len(diagnostics_of(training.algorithm))
    packed = {"sizes": [3 * 8], "rows": [8, len(own) * columns * 8], "sum": [4 * size, 4 * floats]}
    shapes = {(form(kind, one).length,) for kind, several in packed.items() for one in several}
    shapes |= {(size,), (floats,), (integers,)}
    said = [f"{m.call} of {tuple(m.tensor.shape)} at an evaluation" for m in log if tuple(m.tensor.shape) not in shapes]
    calls = {message.call for message in log}
    return said + [f"{call} at an evaluation" for call in calls - {"isend", "irecv", "broadcast"}]


def run(group: Group) -> dict[str, list[str]]:
    data = load("digits").train
    m, b, w, f = form("model", 4 * D), form("model", 4 * D_BUFFERS), form("weight", 4), form("buffer", 4 * F)
    code = form("code", *CODE)
    worlds: list[tuple[str, Any, Callable[[], nn.Module], list[Form]]] = [
        ("dpsgd", ring(4), model, [m]),
        ("dpmsgd", random_matchings(4), model_with_buffers, [b, f]),
        ("sgp", exponential(4), model_with_buffers, [b, f, w]),
        ("sgp", one_peer_exponential(4), model, [m, w]),
        ("swarm", ring(4), model, []),
        ("cga", ring(4), model_with_buffers, [b, f, form("gradient", 4 * D_BUFFERS)]),
        ("compcga", bipartite(4), model, [m, code]),
        ("gradient-tracking", ring(4), model, [m, form("tracker", 4 * D)]),
        ("edm", ring(4), model, [m]),
        ("cga", ring(8), model, [m, form("gradient", 4 * D)]),
        ("compcga", ring(8), model, [m, code]),
    ]
    unlike = {}
    for name, graph, make, needed in worlds:
        agents = graph.agents
        parts = split(data, Dirichlet(0.5)(data.labels.numpy(), agents, 0))
        own = parts[group.shard(agents).rows]
        settings = TrainingSettings(crossgrad.Constant(0.05), batch_size=16, steps=STEPS)
        training = Training(make(), own, ALGORITHMS[name](), graph, settings, group=group)
        size = training.model.start.numel()
        allowed = [*needed, *(form(kind, 4 * size) for kind in ("model", "gradient", "tracker"))]
        said, sent = breaches(training, own, allowed, needed, group)
        counted = training.traffic.total
        if agents == group.processes and sent != counted:
            said.append(f"{sent} bytes were sent, {counted} counted")
        if agents > group.processes and not 0 < sent < counted:
            said.append(f"{sent} bytes were sent between processes, {counted} counted between agents")
        if name == "compcga" and agents == group.processes:
            degree = int((training.traffic.sender == group.rank).sum())
            by_kind = training.traffic.by_kind()
            if by_kind != {"model": STEPS * degree * 4 * D, "code": STEPS * degree * (67 + 4)}:
                said.append(f"answers do not travel as bits: {by_kind}")
        said += at_evaluation(training, own, size)
        if said:
            unlike[f"{name} on {graph.name}, {agents} agents"] = sorted(set(said))
    return unlike


if __name__ == "__main__":
    for name in (*POINT_TO_POINT, *TOGETHER):
        listen(name)
    with crossgrad.process_group() as group:
        unlike = run(group)
        with open(f"{os.environ['MISMATCHES']}.{group.rank}", "w") as file:
            json.dump(unlike, file)
