"""The interfaces of an algorithm: gradients, the network of a step, and the algorithm itself.

N: agents of this shard (all of them in a simulation), K: neighbour slots, D: parameters.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crossgrad.codecs.codec import Codec


class Needs(Flag):
    """What an algorithm needs of its graph."""

    COLUMN_STOCHASTIC = auto()  # columns sum to 1
    DOUBLY_STOCHASTIC = auto()  # rows and columns sum to 1
    UNDIRECTED = auto()  # symmetric weights
    FIXED = auto()  # the same graph in every step
    TREE = auto()  # one way between any two agents
    RELIABLE = auto()  # every message arrives: no faults
    EIGENVALUES = auto()  # all those of (1 - lazy) Pi + lazy I above the algorithm's `lowest`


class Gradient(Protocol):
    """The agents' losses, seen only through their gradients."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the parameter tensors within the flat vector of length D."""

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        """Every (active) agent draws its next batch and returns its gradient there; zeros for the others.

        The tensor is the caller's own, to work on in place.
        """


class CrossGradient(Gradient, Protocol):
    """A gradient that can also be taken at another agent's model: cross-gradients."""

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        """Row m: the gradient of the loss of agents[m], on the batch it drew last, at models[m]."""

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        """As a call, but each row is computed once, when it is first requested. Batches are drawn now."""


class CrossGradients(NamedTuple):
    """The own gradients of a block of R agents, and the cross-gradients that they received."""

    rows: slice
    g_RD: Tensor
    G_RKD: Tensor
    pi_RL: Tensor


class SharedModels(Protocol):
    """Models sent to all neighbours, for the average and for cross-gradients."""

    def average_(self, plus: Tensor | None = None) -> Tensor:
        """x <- sum_l pi_jl x^l, self included, plus a step: the models that were shared are written over."""

    def cross_gradients(self, grad: CrossGradient, codec: Codec, memory_NKD: Tensor) -> Iterator[CrossGradients]:
        """Every agent draws a batch; yields its own and its neighbours' gradients at its own model, in blocks.

        Thus neither N x D nor N x K x D numbers are held at once. `memory` is updated in place.
        """

    def own_gradients(self, grad: CrossGradient) -> Iterator[CrossGradients]:
        """Every agent draws a batch; yields its gradients at its own and its neighbours' models, in blocks."""

    def at_neighbours(self, grad: CrossGradient, rows: slice, g_RD: Tensor) -> CrossGradients:
        """The gradients of these agents' losses at their neighbours' models, on the last batch; g is passed on."""


class Network(Protocol):
    """The exchanges between agents in one step."""

    @property
    def agents(self) -> int:
        """How many agents the whole network has."""

    @property
    def slots(self) -> int:
        """The largest number of neighbours an agent ever has."""

    @property
    def trees(self) -> int:
        """How many trees `relay_` uses: one, or the two of a double binary tree; 0 on other graphs."""

    def mixing_rate(self, lazy: float = 0.0) -> float:
        """The factor by which one averaging with (1 - lazy) Pi + lazy I reduces disagreement in the worst case."""

    def eigenvalues(self) -> tuple[float, ...]:
        """All eigenvalues of Pi, which must be symmetric, from the smallest to 1."""

    def weights(self) -> NDArray[np.float64]:
        """Pi, which must be symmetric: row j has the weights of the agents in j's average."""

    def mix_(self, x_ND: Tensor, plus_ND: Tensor | None = None, *, kind: str = "model", lazy: float = 0.0) -> Tensor:
        """x <- W x + plus in place, W = (1 - lazy) Pi + lazy I. What is of kind "model" takes its buffers along."""

    def push_(self, u_ND: Tensor, w_N1: Tensor) -> tuple[Tensor, Tensor]:
        """Push-sum: u <- Pi u and w <- Pi w in place, for a Pi whose columns sum to one."""

    def share(self, x_ND: Tensor) -> SharedModels:
        """Send every agent's model to its neighbours."""

    def broadcast_(
        self, p_ND: Tensor, codec: Codec, sizes: Sequence[int], *, kind: str = "model", lazy: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Send p to all neighbours, encoded: p becomes what they decode, and is returned with its average Pi p.

        What is of kind "model" takes its buffers along; they are averaged with (1 - lazy) Pi + lazy I.
        """

    def relay_(self, x_ND: Tensor, received_NKD: Tensor, counts_NT: Tensor) -> tuple[Tensor, Tensor]:
        """Every agent i sends to each neighbour j x_i plus what its other neighbours sent it in the step before.

        m_ij = x_i + sum_{k != j} received_ik, with counts of models likewise. In place: received and counts (zero
        before the first step) become what arrived. They are part of the algorithm's state; counts has a column for each
        tree and slot. Of two trees, each carries half of the numbers.

        Returns:
            Their sums over the neighbours: sum_k received_ik and sum_k counts_ik, the latter as a column, or of two
            trees for every number.
        """

    def tree_rounds(self) -> "Sequence[TreeRound]":
        """Rounds along a spanning tree, to its root and back, after which everybody has the exact mean.

        In each, agents that receive take a weighted mean of what arrives and what they have; the others keep theirs.
        """

    def meet(self, single: bool) -> "Meeting":
        """Random pairs of neighbours that average: one pair, or a maximal matching."""

    def alone(self) -> "Network":
        """The network of a local step: no agent sends anything, and W = I."""

    def draw(self, purpose: str) -> Tensor:
        """One uniform number in [0, 1) per agent, the same in every runtime."""


class TreeRoundNetwork(Network, Protocol):
    """The network of one round along a tree, in which few agents send."""

    def pass_on(
        self, p_SD: Tensor, codec: Codec, sizes: Sequence[int], *, kind: str = "model"
    ) -> tuple[Tensor, Tensor]:
        """Send the senders' rows, encoded. Return them decoded, and the weighted sums that the receivers take of them.

        What is of kind "model" takes its buffers along.
        """


class TreeRound(NamedTuple):
    """One round along a tree: the network in which it takes place, who sends and receives, and how much they keep."""

    network: "TreeRoundNetwork"
    senders: Tensor  # rows of the agents that send
    receivers: Tensor  # rows of those that receive
    keeps_R1: Tensor  # the weight of what a receiver has in what it then has


class Meeting(NamedTuple):
    """Who takes part in a step of random pairs, and how they average."""

    awake_N: Tensor
    network: Network


class State(Protocol):
    """A NamedTuple of tensors with the agents as axis 0."""

    @property
    def x(self) -> Tensor:
        """The models."""


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Diagnostic:
    """A number that an algorithm reports of its steps, one per agent; `Algorithm.diagnostics` declares them.

    Attributes:
        name: in records and SQL: a Python identifier.
        description: in one line, for tables and axes.
        adds_up: whether it is a count, which adds up over steps and agents; else the record has the mean over the
            agents at the last step.
    """

    name: str
    description: str
    adds_up: bool = False


def diagnostics_of(algorithm: "Algorithm[Any]") -> tuple[Diagnostic, ...]:
    """What the algorithm declares; its state then has `diagnostics`, float64 with a column for each."""
    declared: tuple[Diagnostic, ...] = getattr(algorithm, "diagnostics", ())
    return declared


def rounds_of(algorithm: "Algorithm[Any]", net: Network) -> int:
    """The communication rounds of a step in this network: those that the algorithm declares, or one."""
    declared: int | Callable[[Network], int] = getattr(algorithm, "rounds_per_step", 1)
    return declared(net) if callable(declared) else declared


class Algorithm(Protocol[S]):
    """One update rule: a frozen dataclass of hyper-parameters.

    It may declare

    - `diagnostics: ClassVar[tuple[Diagnostic, ...]]`: numbers for the records;
    - `kinds`: the names of messages besides models (`kind` of `mix_` and of its codecs), under which bytes are counted;
    - `pace(agents)`: the mini-batches per agent and step, if that is not one;
    - `rounds_per_step`: the communication rounds of a step, if that is not one, or a method that computes them from the
      network. Messages of different kinds that need not wait for one another are one round;
    - `step_size`: a first value to try, with which it learns digits on a ring of 10 agents in 300 steps.
    """

    needs: ClassVar[Needs]

    def init(self, x: Tensor, net: Network) -> S:
        """Return the state before the first step."""

    def step(self, s: S, lr: float, grad: CrossGradient, net: Network) -> S:
        """Take a step and return the new state; the tensors of the old state may be written over.

        Args:
            s: the state before.
            lr: the step size; where `crossgrad.optim` has parameter groups, a tensor of one for each of the D numbers.
            grad: the agents' gradients.
            net: the exchanges of this step.
        """
