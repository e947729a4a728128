"""Whether a run can go on with a later version of its federation's file."""

from typing import Any

import torch
from torch import Tensor

from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad._training.validate import algorithm_name, check_graph
from crossgrad.federation.file import Federation
from crossgrad.graphs import fully_connected
from crossgrad.models.buffers import Buffers


def check_grows(federation: Federation) -> None:
    """Raise ValueError unless sites that are training can go on with this version."""
    algorithm = federation.experiment.method
    check_graph(algorithm, federation.graph, len(federation.sites))
    if _state_shapes(algorithm, 2) != _state_shapes(algorithm, 3):
        raise ValueError(
            "a run keeps its neighbours to the end where something is kept for each of them; "
            f"{algorithm_name(algorithm)} keeps what its compressed messages left out. Start a new run with all sites."
        )


def check_follows(present: Federation, found: Federation) -> None:
    """Raise ValueError if a version changes anything that must not change during a run."""
    before, after = ([entry.name for entry in each.sites] for each in (present, found))
    if after[: len(before)] != before:
        raise ValueError(
            f"version {found.version} must have the sites of version {present.version} first, in their order, and new "
            "ones behind them; revoke the certificate of a site that is to go."
        )
    if changed := [part for part, value in present.lasting.items() if found.lasting.get(part) != value]:
        raise ValueError(
            f"a run keeps to its end what is trained; version {found.version} changes what is trained "
            f"({', '.join(changed)}). Start a new run for that."
        )
    if all(entry.samples for entry in present.sites) and not all(entry.samples for entry in found.sites):
        raise ValueError(
            f"new sites must state their samples, as all sites of version {present.version} do; some do not."
        )


def _state_shapes(algorithm: Any, agents: int) -> list[tuple[int, ...]]:
    """The shapes of an algorithm's state for an agent that receives from all others."""
    graph, none = fully_connected(agents), torch.zeros(agents, 0)
    buffers = Buffers(none, none.long(), ())
    context = NetworkContext(Shard.of(agents), graph, Traffic(graph, kinds=kinds_of(algorithm)), buffers, 0)
    return _shapes(algorithm.init(torch.zeros(agents, 2), AgentNetwork(graph, context, 0)))


def _shapes(state: Any) -> list[tuple[int, ...]]:
    if isinstance(state, Tensor):
        return [tuple(state.shape[1:])]
    return [shape for part in state for shape in _shapes(part)] if isinstance(state, tuple) else []
