"""Several rounds of gossip a step, accelerated and compressed, for every algorithm that averages.

N: agents of this shard, D: parameters.
"""

import math
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from crossgrad.algorithms import tree_network
from crossgrad.algorithms.api import CrossGradient, Needs, Network, rounds_of
from crossgrad.algorithms.local_gradient import LocalGradient
from crossgrad.algorithms.rounds_network import RoundsNetwork, check_codec, mixed_kinds
from crossgrad.algorithms.steps import check_local_steps
from crossgrad.algorithms.tree_network import TreeNetwork
from crossgrad.codecs.codec import Codec


@dataclass(frozen=True)
class Gossip:
    """How models are averaged within a step: in one exact round by default.

    Rounds: in place of x <- Pi x, an averaging takes `rounds` rounds z <- z + gamma (Pi - I) z, starting at z = x.

    Acceleration: with `chebyshev`, the rounds are z_{k+1} = omega_{k+1} (z_k + gamma (Pi - I) z_k - z_{k-1}) + z_{k-1}
    with omega_2 = 1 / (1 - l^2 / 2) and omega_{k+1} = 1 / (1 - l^2 omega_k / 4), where l is the mixing rate of
    I + gamma (Pi - I). Together they are the Chebyshev polynomial of that matrix, and disagreement shrinks by the
    factor 1 / T_rounds(1 / l).

    Compression: with a `codec`, only compressed differences are sent. In every round all agents update x-hat by
    codec(z - x-hat), and (Pi - I) z becomes (Pi - I) x-hat. The mean of the models is kept exactly, however coarse the
    codec is. Buffers are sent exactly, once per round, and averaged with weights Pi.

    If the algorithm averages with (1 - lazy) Pi + lazy I, its lazy share is applied after the rounds, so that no
    eigenvalue of the whole averaging is below 2 lazy - 1.

    Exact mean: with `tree`, every agent gets the exact mean of all models. Means of subtrees are sent along a spanning
    tree to its root, and the mean is sent back. This takes twice as many rounds as the farthest agent is away from the
    root, and every step waits for the slowest agent. Every edge of the tree carries one message each way, so on a graph
    with many more edges this sends fewer bytes than one plain round. With a codec, differences from what was sent in
    the step before are sent, and all agents get the same rounded mean. Methods that correct each step by the one before
    (EDM, D2, tracking) would accumulate these rounding errors, and are refused. With exact means QG-DSGDm and DPSGD
    have no bias to correct.

    Local steps: with `local_steps` H, a step has H gradients, and messages are sent after the last of them only. The
    algorithm follows its rule H - 1 times with W = I and then once with W. DPSGD with local steps is known as local
    SGD. Gradient tracking, momentum tracking and GTAdam remain exact on non-IID data, because their corrections sum to
    zero over the agents for any W. The bias of other methods grows. D2, EDM, GUT and RelaySGD need the same W in every
    step, and CHOCO, AdaGossip, BEER and MoTEF keep copies of models that every step updates. These methods take one
    step of their rule, along the sum of the H gradients of plain local steps (see `LocalGradient`). Such a sum is not
    the gradient at one point, so a bias proportional to lr (H - 1) remains even in methods that otherwise have none.
    LED and K-GT are exact diffusion and gradient tracking with corrections that remove it.

    Reference:
        Koloskova, Stich, Jaggi: Decentralized Stochastic Optimization and Gossip Algorithms with Compressed
        Communication. ICML 2019, arXiv:1902.00340 (differences). Lu, De Sa: Optimal Complexity in Decentralized
        Training. ICML 2021, arXiv:2006.08085 (accelerated gossip). Stich: Local SGD Converges Fast and Communicates
        Little. ICLR 2019, arXiv:1805.09767 (local steps).

    Args:
        codec: how differences are encoded; None sends exact numbers and keeps no copies.
        rounds: message rounds in every averaging, at least 1.
        chebyshev: whether to accelerate the rounds; it needs an undirected graph.
        gamma: step size of the averaging, above 0 and at most 1. It may be above 1 for accelerated rounds with a codec,
            because some graphs mix fastest then (see `fastest_gamma`). None: the largest that is safe, which is 1 for
            exact rounds and for codecs that do not state their error; for `Quantised`, see `safe_gamma`, which needs an
            undirected graph. Coarse codecs, and many accelerated rounds of them, need a smaller gamma.
        local_steps: H, gradients from one averaging to the next.
        tree: whether to average exactly, along a spanning tree. It needs a fixed, undirected graph without faults, and
            cannot be combined with `rounds`, `chebyshev` or `gamma`.

    Two accelerated rounds of 4-bit differences, which send half the bytes of one exact round here, and a quarter if
    models are larger:

    >>> import crossgrad as cg
    >>> data = [(4 * torch.eye(16), torch.full((16, 1), 4.0 * k)) for k in range(5)]  # agent k's best weights are all k
    >>> model, method = torch.nn.Linear(16, 1, bias=False), cg.EDM(momentum=0.5)
    >>> gossip = cg.Gossip(cg.Quantised(bits=4), rounds=2, chebyshev=True)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=method, gossip=gossip, lr=0.2, steps=20)
    >>> [round(result.agent_model(k).weight.mean().item(), 1) for k in range(5)]  # on all data, 2 is best
    [2.0, 2.0, 2.0, 2.0, 2.0]
    >>> result.records[-1].bytes_sent, 20 * 10 * 16 * 4  # of these rounds, and of exact ones
    (6400, 12800)
    """

    codec: Codec | None = None
    rounds: int = 1
    chebyshev: bool = False
    gamma: float | None = None
    local_steps: int = 1
    tree: bool = False

    def __post_init__(self) -> None:
        check_local_steps(self.local_steps)
        if self.tree and (self.rounds, self.chebyshev, self.gamma) != (1, False, None):
            raise ValueError(
                f"an average along a tree is exact after rounds of its own; found rounds = {self.rounds}, chebyshev = "
                f"{self.chebyshev} and gamma = {self.gamma} beside tree. Leave these out, or tree."
            )
        if self.rounds < 1 or self.rounds != int(self.rounds):
            raise ValueError(f"rounds must be a whole number of at least 1; found {self.rounds}.")
        most = math.inf if self.chebyshev and self.codec is not None else 1.0
        if self.gamma is not None and not 0.0 < self.gamma <= most:
            raise ValueError(
                f"gamma must be above 0 and at most 1, or more with a codec and chebyshev; found {self.gamma}. 1 is "
                "plain averaging."
            )

    @property
    def one_exact_round(self) -> bool:
        """Whether an averaging is one exact round, as without these options."""
        return self.codec is None and self.rounds == 1 and self.gamma in (None, 1.0) and not self.tree

    @property
    def plain(self) -> bool:
        """Whether these options change nothing: one exact round, one local step."""
        return self.one_exact_round and self.local_steps == 1

    def around(self, algorithm: Any) -> Any:
        """The same algorithm with this gossip as its averaging.

        Raises:
            ValueError: if the algorithm does something else with its neighbours than averaging, or cannot have local
                steps.
        """
        return algorithm if self.plain else GossipRounds(algorithm, self)


@dataclass(frozen=True)
class GossipRounds:
    """An algorithm whose averagings are several rounds, or compressed; made by `Gossip.around`.

    Its state has two more tensors for each kind of message that is compressed: the copy of an agent's numbers that its
    neighbours have (x-hat), and the weighted sum of the neighbours' x-hat; along a tree, both for each direction.
    """

    algorithm: Any
    gossip: Gossip

    def __post_init__(self) -> None:
        name, kinds = type(self.algorithm).__name__, self.mixed
        check_codec(self.gossip.codec, self.gossip.gamma)
        if self.gossip.local_steps > 1:
            _check_local(name, self.algorithm)
        if len(set(kinds)) < len(kinds):
            raise ValueError(f"what {name} averages must have a kind of its own each; found {', '.join(kinds)}.")
        if self.gossip.tree and self.gossip.codec is not None:
            _check_forgets(name, self.algorithm, kinds)
        if self.gossip.chebyshev and Needs.EIGENVALUES in self.algorithm.needs:
            lazy, lowest = self.algorithm.lazy, self.algorithm.lowest
            if 2 * lazy - 1 <= lowest:
                raise ValueError(
                    f"{name} needs averaging weights with all eigenvalues above {lowest:.4f}; accelerated rounds "
                    f"with lazy = {lazy:g} have some near {2 * lazy - 1:g}. Set lazy = 0.5, which is always safe."
                )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("algorithm", "gossip"):
            raise AttributeError(name)
        return getattr(self.algorithm, name)  # kinds, pace, diagnostics, lazy, ...

    @property
    def needs(self) -> Needs:
        """What the algorithm needs; a fixed graph without faults for copies, a symmetric one for acceleration."""
        needs: Needs = self.algorithm.needs
        if self.gossip.codec is not None:
            needs |= Needs.DOUBLY_STOCHASTIC | Needs.FIXED | Needs.RELIABLE
        if self.gossip.chebyshev:
            needs |= Needs.DOUBLY_STOCHASTIC | Needs.UNDIRECTED
        if self.gossip.tree:
            needs |= Needs.UNDIRECTED | Needs.FIXED | Needs.RELIABLE
        return needs

    def rounds_per_step(self, net: Network) -> int:
        """The rounds of one averaging; an algorithm that does something else with its neighbours has its own."""
        rounds = len(net.tree_rounds()) if self.gossip.tree else self.gossip.rounds
        return rounds * rounds_of(self.algorithm, net)

    def pace(self, agents: int) -> float:
        """Mini-batches per agent and step, on average."""
        own = self.algorithm.pace(agents) if hasattr(self.algorithm, "pace") else 1.0
        return float(self.gossip.local_steps * own)

    @cached_property
    def mixed(self) -> tuple[str, ...]:
        """The kinds of message that the algorithm averages, where the averages are not its own."""
        return () if self.gossip.one_exact_round else mixed_kinds(self.algorithm)

    @property
    def copied(self) -> tuple[str, ...]:
        """Those of which copies are kept."""
        return () if self.gossip.codec is None else self.mixed

    @property
    def _parts(self) -> tuple[str, ...]:
        return tree_network.PARTS if self.gossip.tree else ("hat", "near")

    def init(self, x: Tensor, net: Network) -> Any:
        inner = self.algorithm.init(x, net)
        return self._state(inner, [torch.zeros_like(x) for _ in range(len(self._parts) * len(self.copied))])

    def step(self, s: Any, lr: float, grad: CrossGradient, net: Network) -> Any:
        each, count = len(self._parts), len(s) - len(self._parts) * len(self.copied)
        copies = {kind: s[count + number * each :][:each] for number, kind in enumerate(self.copied)}
        inner = _inner_types[type(s)](*s[:count])
        if Needs.FIXED in self.algorithm.needs:
            grad = LocalGradient(grad, lr, self.gossip.local_steps) if self.gossip.local_steps > 1 else grad
        else:
            for _ in range(self.gossip.local_steps - 1):
                inner = self.algorithm.step(inner, lr, grad, net.alone())
        several = TreeNetwork if self.gossip.tree else RoundsNetwork
        rounds = net if self.gossip.one_exact_round else several(net, self.gossip, copies, grad.sizes)
        return self._state(self.algorithm.step(inner, lr, grad, rounds), s[count:])

    def _state(self, inner: Any, copies: Sequence[Tensor]) -> Any:
        names = [f"{part}_{kind}" for kind in self.copied for part in self._parts]
        return _gossip_state_type(inner.__class__, tuple(names))(*inner, *copies)


def _check_forgets(name: str, algorithm: Any, kinds: Sequence[str]) -> None:
    """Raise if an algorithm would add up the errors of rounded means."""
    if Needs.EIGENVALUES in algorithm.needs or "tracker" in kinds:
        raise ValueError(
            f"an exact mean along a tree may have a codec where a method forgets rounding errors; {name} carries every "
            "difference from the mean on to the next step, so its errors would add up. Use QG-DSGDm or DPSGD, or no "
            "codec."
        )


def _check_local(name: str, algorithm: Any) -> None:
    """Raise unless local steps can be taken between the steps of this algorithm."""
    if hasattr(algorithm, "local_steps"):
        raise ValueError(
            f"local steps must be set once; {name} has its own, beside those of gossip. Set algorithm.local_steps only."
        )


_inner_types: dict[Any, Any] = {}  # of the states made below


@lru_cache(maxsize=256)
def _gossip_state_type(inner_type: Any, names: tuple[str, ...]) -> Any:
    """A NamedTuple with the fields of the algorithm's state and these."""
    made = namedtuple(f"Gossip{inner_type.__name__}", (*inner_type._fields, *names))  # type: ignore[misc]
    _inner_types[made] = inner_type
    return made
