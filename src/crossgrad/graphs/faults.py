"""Faults as a scenario: agents that leave, return or are late, links that lose their messages.

Everything is a pure function of seed and step: a run that is resumed, or that several processes share, sees the same
faults. N: agents, E: directed edges of a step's graph.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from crossgrad._numerics.seeding import generator
from crossgrad.graphs.base import AnyGraph
from crossgrad.graphs.graph import Graph
from crossgrad.graphs.validate import whole_number
from crossgrad.graphs.weights import metropolis, uniform

STEPS_PER_DRAW = 64  # drawn together
NEVER_LEFT = -1


@dataclass(frozen=True)
class Faults:
    """Simulated faults: absent agents, late agents and lost messages. By default there are none.

    Args:
        leave: probability per step that an agent leaves.
        away: number of steps for which it is absent; it returns with the state that it left with.
        straggle: probability per step that an agent is late: it takes its step, but neither sends nor receives.
        drop: probability per step and link that its messages are lost, which both ends notice.
        absences: planned absences, each as (agent, first step of its absence, step of its return).

    >>> Faults(leave=0.01, away=50).any, Faults().any
    (True, False)
    """

    leave: float = 0.0  # chance per step that an agent leaves
    away: int = 20  # steps it stays away; it returns with the state it left with
    straggle: float = 0.0  # chance per step that an agent is late: it steps, but neither sends nor receives
    drop: float = 0.0  # chance per step and link that its messages are lost; both ends know
    absences: tuple[tuple[int, ...], ...] = ()  # planned: (agent, first step away, step of its return)

    def __post_init__(self) -> None:
        for name in ("leave", "straggle", "drop"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be a chance per step, from 0 to 1; found {getattr(self, name)}.")
        whole_number(self.away, "away", least=1)
        for absence in self.absences:
            whole = len(absence) == 3 and all(isinstance(number, int) for number in absence)
            if not whole or absence[0] < 0 or not 0 <= absence[1] < absence[2]:
                raise ValueError(
                    "every one of absences must be an agent, its first step away (from 0 on) and the later step of "
                    f"its return, such as [3, 100, 150]; found {list(absence)}."
                )

    @property
    def any(self) -> bool:
        """Whether any fault can happen."""
        return bool(self.leave or self.straggle or self.drop or self.absences)

    def check(self, agents: int) -> None:
        """Raise unless the agents that `absences` names exist."""
        for agent, _, _ in self.absences:
            if agent >= agents:
                raise ValueError(f"absences must be of agents 0 to {agents - 1}; found agent {agent}.")


class Scenario:
    """Which agents are present in each step of a run, and which of the graph's links work."""

    def __init__(self, faults: Faults, graph: AnyGraph, seed: int) -> None:
        faults.check(graph.agents)
        self.faults, self.graph, self.seed = faults, graph, seed

    def present(self, step: int) -> NDArray[np.bool_]:
        """Which agents take a step; late ones do."""
        faults, agents = self.faults, self.graph.agents
        present: NDArray[np.bool_] = np.ones(agents, np.bool_)
        if faults.leave:
            block, row = divmod(step, STEPS_PER_DRAW)
            left = _last_left(self.seed, agents, faults.leave, faults.away, block)[row]
            present = (left == NEVER_LEFT) | (left <= step - faults.away)
        for agent, first, last in faults.absences:
            present[agent] &= not first <= step < last
        return present

    def at(self, step: int) -> Graph:
        """The graph of that step: its own where nothing failed, else its working links with new weights."""
        graph = self.graph.at(step)
        if not self.faults.any:
            return graph
        working = self._working(graph, step)
        return graph if working.all() else _left_over(graph, working.tobytes())

    def shares(self, steps: range) -> dict[str, float]:
        """The mean share of agents that were present in these steps, and of links that worked; 1 if there are none."""
        present = [float(self.present(step).mean()) for step in steps]
        working = [self._working(self.graph.at(step), step) for step in steps]
        links = [float(works.mean()) if works.size else 1.0 for works in working]
        return {"present": sum(present) / len(steps), "links": sum(links) / len(steps)} if steps else NOTHING_FAILED

    def _working(self, graph: Graph, step: int) -> NDArray[np.bool_]:
        """Which of the graph's directed edges work; the two of a pair fail together."""
        receiver_E, sender_E, _ = graph.edges
        in_touch = self.present(step)
        if self.faults.straggle:
            block, row = divmod(step, STEPS_PER_DRAW)
            in_touch = in_touch & (_draws(self.seed, "straggle", graph.agents, block)[row] >= self.faults.straggle)
        working: NDArray[np.bool_] = in_touch[receiver_E] & in_touch[sender_E]
        if self.faults.drop:
            first, second = receiver_E, sender_E
            if graph.mutual:
                first, second = np.minimum(receiver_E, sender_E), np.maximum(receiver_E, sender_E)
            links, link_E = np.unique(first * graph.agents + second, return_inverse=True)
            draws = generator(self.seed, "drop", step).random(len(links))
            working &= draws[link_E] >= self.faults.drop
        return working


SHARES = {"present": "share of agents that are there", "links": "share of links that work"}  # in records
NOTHING_FAILED = dict.fromkeys(SHARES, 1.0)


@lru_cache(maxsize=16)
def _draws(seed: int, purpose: str, agents: int, block: int) -> NDArray[np.float64]:
    """A uniform number for each of a block of steps and each agent."""
    return generator(seed, purpose, block).random((STEPS_PER_DRAW, agents))


@lru_cache(maxsize=16)
def _last_left(seed: int, agents: int, leave: float, away: int, block: int) -> NDArray[np.int64]:
    """For each of a block of steps and each agent, the last step in which it left; NEVER_LEFT if that is long ago."""
    last: NDArray[np.int64] = np.full((1, agents), NEVER_LEFT)
    for earlier in range(max(0, block * STEPS_PER_DRAW - away + 1) // STEPS_PER_DRAW, block + 1):
        step = earlier * STEPS_PER_DRAW + np.arange(STEPS_PER_DRAW)[:, None]
        left = np.where(_draws(seed, "leave", agents, earlier) < leave, step, NEVER_LEFT)
        last = np.maximum(last[-1], np.maximum.accumulate(left))
    return last


@lru_cache(maxsize=64)
def _left_over(graph: Graph, working: bytes) -> Graph:
    """The graph of the edges that work: Metropolis weights if it is undirected, else uniform weights per sender."""
    receiver_E, sender_E, _ = graph.edges
    works_E = np.frombuffer(working, np.bool_)
    ends = receiver_E[works_E], sender_E[works_E]
    edges = csr_array((np.ones(len(ends[0])), ends), shape=graph.weights.shape)
    weights = metropolis(edges) if graph.mutual and graph.doubly_stochastic else uniform(edges)
    return Graph(weights, f"{graph.name} with faults", part_of_sequence=True)
