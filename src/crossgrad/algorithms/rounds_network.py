"""The network of an algorithm whose averagings take several rounds, or travel compressed.

N: agents of this shard, D: parameters.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgrad.algorithms.api import Network
from crossgrad.algorithms.gossip_mixing import fastest_gamma, omegas, rate_with
from crossgrad.algorithms.gossip_stability import safe_gamma
from crossgrad.algorithms.zero_gradient import ZeroGradient
from crossgrad.codecs.codec import Codec, StatesError, measured_error


class Rounds(Protocol):
    """How an averaging is done: see `Gossip`."""

    @property
    def codec(self) -> Codec | None:
        """How differences are encoded."""

    @property
    def rounds(self) -> int:
        """Rounds of messages in an averaging."""

    @property
    def chebyshev(self) -> bool:
        """Whether they are accelerated."""

    @property
    def gamma(self) -> float | None:
        """Step size of the rounds; None for the largest that is safe."""


class RoundsNetwork:
    """A network whose averagings are several rounds, or compressed.

    Args:
        net: The network that carries the messages.
        gossip: The rounds of every averaging.
        copies: For each kind that is compressed, x-hat and Pi x-hat; updated in place.
        sizes: Lengths of the parameter tensors within a model.
    """

    def __init__(self, net: Network, gossip: Rounds, copies: dict[str, Sequence[Tensor]], sizes: Sequence[int]) -> None:
        self.net, self.gossip, self.copies, self.sizes = net, gossip, copies, sizes

    @property
    def agents(self) -> int:
        return self.net.agents

    @property
    def slots(self) -> int:
        return self.net.slots

    @property
    def trees(self) -> int:
        return self.net.trees

    def mixing_rate(self, lazy: float = 0.0) -> float:
        return self.net.mixing_rate(lazy)

    def eigenvalues(self) -> tuple[float, ...]:
        return self.net.eigenvalues()

    def weights(self) -> NDArray[np.float64]:
        return self.net.weights()

    def draw(self, purpose: str) -> Tensor:
        return self.net.draw(purpose)

    def mix_(self, x: Tensor, plus: Tensor | None = None, *, kind: str = "model", lazy: float = 0.0) -> Tensor:
        gamma, before, z = self.gamma(lazy), x, x
        rate = self._rate(gamma) if self.gossip.chebyshev else 0.0
        for omega in islice(omegas(rate, self.gossip.chebyshev), self.gossip.rounds):
            mixed = self._round(z, kind, gamma)
            if omega != 1.0:
                mixed.sub_(before).mul_(omega).add_(before)
            before, z = z, mixed
        x.mul_(lazy).add_(z.mul_(1 - lazy)) if lazy else x.copy_(z)
        return x if plus is None else x.add_(plus)

    def gamma(self, lazy: float = 0.0) -> float:
        """The step size of the rounds: the one that was chosen, or the largest that is safe for this codec.

        Args:
            lazy: the algorithm's share of the identity.
        """
        gossip = self.gossip
        if gossip.gamma is not None or gossip.codec is None:
            return 1.0 if gossip.gamma is None else gossip.gamma
        if not isinstance(gossip.codec, StatesError):
            return 1.0
        error = gossip.codec.relative_error(sum(self.sizes))
        return safe_gamma(self.net.weights(), error, gossip.rounds, gossip.chebyshev, lazy)

    def _rate(self, gamma: float) -> float:
        """The mixing rate of I + gamma (Pi - I)."""
        if gamma <= 1:
            return self.net.mixing_rate(1 - gamma)
        if (rate := rate_with(self.net.eigenvalues(), gamma)) < 1:
            return rate
        fastest = fastest_gamma(self.net.eigenvalues())
        raise ValueError(
            f"gamma = {gamma:g} makes models that differ grow apart on this graph; {fastest:.3g} mixes fastest. Leave "
            "gamma out, and the largest that is safe is taken."
        )

    def _round(self, z: Tensor, kind: str, gamma: float) -> Tensor:
        """z + gamma (Pi - I) z, or the same with the copies of z."""
        gossip = self.gossip
        if gossip.codec is None:
            return self.net.mix_(z.clone(), kind=kind, lazy=1 - gamma)
        hat, near = self.copies[kind]
        q, q_near = self.net.broadcast_(z - hat, gossip.codec, self.sizes, kind=kind)
        hat.add_(q)
        near.add_(q_near)
        return torch.sub(near, hat, out=q).mul_(gamma).add_(z)

    def tree_rounds(self) -> NoReturn:
        _refuse_rounds("takes rounds along a tree of its own")

    def alone(self) -> Network:
        return self.net.alone()

    def push_(self, u_ND: Tensor, w_N1: Tensor) -> NoReturn:
        _refuse_rounds("pushes weighted sums")

    def share(self, x_ND: Tensor) -> NoReturn:
        _refuse_rounds("takes gradients at its neighbours' models")

    def meet(self, single: bool) -> NoReturn:
        _refuse_rounds("averages random pairs")

    def relay_(self, x_ND: Tensor, received_NKD: Tensor, counts_NT: Tensor) -> NoReturn:
        _refuse_rounds("relays sums along a tree")

    def broadcast_(
        self, p_ND: Tensor, codec: Codec, sizes: Sequence[int], *, kind: str = "model", lazy: float = 0.0
    ) -> NoReturn:
        _refuse_rounds("has a codec of its own")


def check_codec(codec: Codec | None, gamma: float | None) -> None:
    """Raise if nothing says which gamma is safe, and copies could not follow models by what the codec leaves."""
    if codec is None or gamma is not None or isinstance(codec, StatesError):
        return
    if (error := measured_error(codec)) >= 1.0:
        raise ValueError(
            f"copies of models can follow them only if a codec loses less than it is given; {type(codec).__name__} "
            f"loses {error:.2g} times the square of normal numbers. Leave out a factor that makes it unbiased, set "
            "gamma, or give the codec `relative_error`, from which a safe gamma is found."
        )


def _refuse_rounds(what: str) -> NoReturn:
    raise ValueError(
        f"several rounds and compressed averages need an algorithm that only averages with its neighbours; this one "
        f"{what}. Use DPSGD, QG-DSGDm, EDM, gradient tracking or the like, or one exact round."
    )


class _Probe(RoundsNetwork):
    """A network that only notes which kinds of message are averaged, and refuses what RoundsNetwork refuses."""

    agents, slots, trees = 2, 1, 1

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def mixing_rate(self, lazy: float = 0.0) -> float:
        return 0.5

    def draw(self, purpose: str) -> Tensor:
        return torch.full((2,), 0.5, dtype=torch.float64)

    def mix_(self, x: Tensor, plus: Tensor | None = None, *, kind: str = "model", lazy: float = 0.0) -> Tensor:
        self.kinds.append(kind)
        return x if plus is None else x.add_(plus)


def mixed_kinds(algorithm: Any) -> tuple[str, ...]:
    """What an algorithm averages in a step, by a step of two agents with models of two numbers.

    Raises:
        ValueError: if it does something else with its neighbours.
    """
    net = _Probe()
    algorithm.step(algorithm.init(torch.zeros(2, 2), net), 0.1, ZeroGradient((2,)), net)
    return tuple(net.kinds)
