"""The links and machines that a run is simulated on: bandwidths, latencies, and how long a gradient takes.

N: agents, E: directed edges.
"""

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossgrad._numerics.arrays import Floats
from crossgrad._numerics.seeding import generator
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.units import bytes_per_second, seconds


@dataclass(frozen=True)
class Links:
    """The links between agents, each of which is a machine of its own.

    An agent has one connection, which sends and receives at its bandwidth, both at the same time. A message takes
    its bytes over the sender's bandwidth plus the latency of the edge; it arrives later if the receiver's connection
    is busy with other messages.

    Args:
        bandwidth: of every agent's connection, each way, such as "100 Mbit/s"; None: without limit.
        latency: from an agent to a neighbour, one way.
        handshake: whether a message waits until the receiver has said that it expects it, as those of torchrun's
            processes do (gloo): one more latency where both begin at the same time.
        bandwidth_of: other bandwidths: of an agent ("3"), or a limit for the edge of two ("0-3"), each way.
        latency_of: other latencies: of all edges of an agent ("3"), or of an edge ("0-3"), which counts for more.

    >>> Links("100 Mbit/s", "20 ms", latency_of={"0-3": "80 ms"}).latency
    '20 ms'
    """

    bandwidth: str | None = None
    latency: str = "0 ms"
    handshake: bool = True
    bandwidth_of: dict[str, str] | None = None
    latency_of: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if self.bandwidth is not None:
            bytes_per_second(self.bandwidth, "bandwidth")
        seconds(self.latency, "latency")
        for key, value in (self.bandwidth_of or {}).items():
            _ends(key, "bandwidth_of")
            bytes_per_second(value, f"bandwidth_of.{key}")
        for key, value in (self.latency_of or {}).items():
            _ends(key, "latency_of")
            seconds(value, f"latency_of.{key}")

    def check(self, agents: int) -> None:
        """Raise unless the agents that are named exist."""
        _check_keys(self.bandwidth_of, "bandwidth_of", agents)
        _check_keys(self.latency_of, "latency_of", agents)

    def seconds_per_byte(self, agents: int) -> Floats:
        """Seconds per byte of each agent's connection; 0 without a limit."""
        found = np.full(agents, 0.0 if self.bandwidth is None else 1 / bytes_per_second(self.bandwidth, "bandwidth"))
        for key, value in (self.bandwidth_of or {}).items():
            if len(ends := _ends(key, "bandwidth_of")) == 1:
                found[ends[0]] = 1 / bytes_per_second(value, "bandwidth_of")
        return found

    def seconds_per_byte_of_edges(self, graph: Graph) -> Floats:
        """Seconds per byte of each edge with a limit of its own; 0 where there is none."""
        found = np.zeros(len(graph.edges[0]))
        for key, value in (self.bandwidth_of or {}).items():
            if len(ends := _ends(key, "bandwidth_of")) == 2:
                found[_between(graph, ends)] = 1 / bytes_per_second(value, "bandwidth_of")
        return found

    def latencies(self, graph: Graph) -> Floats:
        """Seconds on every edge of a graph; where both of its agents have one of their own, the longer."""
        receiver, sender, _ = graph.edges
        of_agent = np.full(graph.agents, math.nan)
        of_edge: dict[tuple[int, ...], float] = {}
        for key, value in (self.latency_of or {}).items():
            ends = _ends(key, "latency_of")
            if len(ends) == 1:
                of_agent[ends[0]] = seconds(value, "latency_of")
            else:
                of_edge[ends] = seconds(value, "latency_of")
        found: Floats = np.fmax(of_agent[receiver], of_agent[sender])
        found[np.isnan(found)] = seconds(self.latency, "latency")
        for ends, way in of_edge.items():
            found[_between(graph, ends)] = way
        return found


@dataclass(frozen=True)
class Compute:
    """How long the agents' machines take.

    Args:
        gradient: for a gradient on one mini-batch, on average.
        spread: standard deviation of that time over agents and steps, as a share of it; log-normal.
        step: for all else of a step.
        gradient_of: other times for a gradient, by agent ("3").

    >>> Compute("30 ms").seconds(2, seed=0, step=0).tolist()
    [0.03, 0.03]
    """

    gradient: str = "0 ms"
    spread: float = 0.0
    step: str = "0 ms"
    gradient_of: dict[str, str] | None = None

    def __post_init__(self) -> None:
        seconds(self.gradient, "gradient")
        seconds(self.step, "step")
        if not 0 <= self.spread <= 10:
            raise ValueError(f"spread must be a share of the time for a gradient, from 0 to 10; found {self.spread}.")
        for key, value in (self.gradient_of or {}).items():
            if not re.fullmatch(r"\d{1,6}", key):
                raise ValueError(f"gradient_of must name an agent by its number, such as 3; found {key!r}.")
            seconds(value, f"gradient_of.{key}")

    def check(self, agents: int) -> None:
        """Raise unless the agents that are named exist."""
        _check_keys(self.gradient_of, "gradient_of", agents)

    def seconds(self, agents: int, seed: int, step: int) -> Floats:
        """How long a gradient takes each agent in this step: a pure function of seed and step."""
        found = np.full(agents, seconds(self.gradient, "gradient"))
        for key, value in (self.gradient_of or {}).items():
            found[int(key)] = seconds(value, "gradient_of")
        if self.spread:
            sigma = math.sqrt(math.log1p(self.spread**2))  # so that the mean is 1, and the deviation is `spread`
            found *= generator(seed, "compute", step).lognormal(-(sigma**2) / 2, sigma, agents)
        return found


def _ends(key: str, name: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,6}(-\d{1,6})?", key):
        raise ValueError(f"{name} must name an agent (3) or the two agents of an edge (0-3); found {key!r}.")
    return tuple(map(int, key.split("-")))


def _check_keys(named: dict[str, str] | None, name: str, agents: int) -> None:
    for key in named or {}:
        if max(_ends(key, name)) >= agents:
            raise ValueError(f"{name} must be of agents 0 to {agents - 1}; found {key!r}.")


def _between(graph: Graph, ends: tuple[int, ...]) -> NDArray[np.bool_]:
    receiver, sender, _ = graph.edges
    one, other = ends
    between: NDArray[np.bool_] = ((receiver == one) & (sender == other)) | ((receiver == other) & (sender == one))
    return between
