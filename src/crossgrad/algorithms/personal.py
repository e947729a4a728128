"""Parameters that stay with their agent: they are trained, and never sent.

N: agents of this shard, D: parameters, S: those that are shared, which lie first, P: the personal ones.
"""

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from crossgrad.algorithms.api import CrossGradient, Meeting, Network
from crossgrad.algorithms.gossip_rounds import Gossip, GossipRounds


@dataclass(frozen=True)
class WithPersonal:
    """An algorithm for models of which a part is personal.

    The algorithm's rule is applied to the shared part, with its neighbours, and by itself to the personal part, as if
    every agent had no neighbours: momentum, Adam's moments and the like are the same for both. One pass gives the
    gradients of both. A cross-gradient is taken at the neighbour's shared part with the own personal part. Where a step
    has several gradients (local steps), the personal part moves after the last of them.

    Its state is the algorithm's, with the whole models as x, and `personal_...` for the personal part.

    Args:
        algorithm: the update rule.
        shared: S.
    """

    algorithm: Any
    shared: int

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("algorithm", "shared"):
            raise AttributeError(name)
        return getattr(self.algorithm, name)  # needs, kinds, pace, diagnostics, ...

    @property
    def alone(self) -> Any:
        """The rule for the personal part. It sends no messages, so options of gossip are left out."""
        if isinstance(self.algorithm, GossipRounds):
            return Gossip(local_steps=self.algorithm.gossip.local_steps).around(self.algorithm.algorithm)
        return self.algorithm

    def init(self, x: Tensor, net: Network) -> Any:
        S = self.shared
        return self._state(
            x, self.algorithm.init(x[:, :S].clone(), net), self.alone.init(x[:, S:].clone(), NO_NEIGHBOURS)
        )

    def step(self, s: Any, lr: Any, grad: CrossGradient, net: Network) -> Any:
        S = self.shared
        shared_type, personal_type = _parts_of[type(s)]
        count = len(shared_type._fields)
        shared = _with_x(shared_type, s.x[:, :S].clone(), s[1:count])
        personal = _with_x(personal_type, s.x[:, S:].clone(), s[count:])
        passes = BothParts(grad, s.x[:, S:], S)
        lr_shared, lr_personal = (lr[:S], lr[S:]) if isinstance(lr, Tensor) and lr.ndim else (lr, lr)
        shared = self.algorithm.step(shared, lr_shared, passes, net)
        personal = self.alone.step(personal, lr_personal, passes.of_personal(), Alone(net))
        s.x[:, :S], s.x[:, S:] = shared.x, personal.x
        return self._state(s.x, shared, personal)

    def _state(self, x: Tensor, shared: Any, personal: Any) -> Any:
        made = _personal_state_type(shared.__class__, personal.__class__)
        return made(x, *_without_x(shared), *_without_x(personal))


def with_personal(algorithm: Any, shared: int, parameters: int) -> Any:
    """The algorithm for models of so many parameters, of which the first `shared` travel: as it is where all do."""
    return algorithm if shared == parameters else WithPersonal(algorithm, shared)


class BothParts:
    """Takes gradients of the whole models, returns the shared part and keeps the personal part for its own step."""

    def __init__(self, grad: CrossGradient, personal_NP: Tensor, shared: int) -> None:
        self.grad, self.personal_NP, self.shared = grad, personal_NP.clone(), shared
        self.kept: list[Tensor] = []  # of each call
        ends = torch.tensor(grad.sizes).cumsum(0)
        self.sizes = tuple(grad.sizes[: int((ends <= shared).sum())])
        self.personal_sizes = tuple(grad.sizes[len(self.sizes) :])

    def __call__(self, x_NS: Tensor, active_N: Tensor | None = None) -> Tensor:
        g_ND = self.grad(torch.cat([x_NS, self.personal_NP], dim=1), active_N)
        self.kept.append(g_ND[:, self.shared :].clone())
        return g_ND[:, : self.shared].clone()

    def on_demand(self, x_NS: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        own = self.grad.on_demand(torch.cat([x_NS, self.personal_NP], dim=1), active_N)
        kept = torch.zeros_like(self.personal_NP)
        self.kept.append(kept)

        def rows_of(rows: slice) -> Tensor:
            g_RD = own(rows)
            kept[rows] = g_RD[:, self.shared :]
            return g_RD[:, : self.shared].clone()

        return rows_of

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        whole = [torch.cat([x, self.personal_NP[agent]]) for x, agent in zip(models, agents, strict=True)]
        return self.grad.cross(whole, agents)[:, : self.shared].clone()

    def of_personal(self) -> "KeptGradient":
        """The gradients of the personal part, in the order of the passes."""
        return KeptGradient(self.kept, self.personal_sizes)


class KeptGradient:
    """Gradients that are known already."""

    def __init__(self, kept: list[Tensor], sizes: tuple[int, ...]) -> None:
        self.kept, self.sizes = iter(kept), sizes

    def __call__(self, x_NP: Tensor, active_N: Tensor | None = None) -> Tensor:
        return next(self.kept)

    def on_demand(self, x_NP: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        g_NP = next(self.kept)
        return lambda rows: g_NP[rows]

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        return torch.zeros(len(models), sum(self.sizes))  # never used: there are no neighbours


class NoNeighbours:
    """A network without edges, as far as `init` of an algorithm uses it."""

    slots = trees = 0


NO_NEIGHBOURS: Any = NoNeighbours()


class Alone:
    """The network of a step without messages, in which the same agents are awake as in the true one."""

    def __init__(self, net: Network) -> None:
        self.net, self.within = net, net.alone()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.within, name)

    @property
    def slots(self) -> int:
        return 0

    @property
    def trees(self) -> int:
        return 0

    def alone(self) -> "Alone":
        return self

    def meet(self, single: bool) -> Meeting:
        return Meeting(self.net.meet(single).awake_N, self.within)


_parts_of: dict[Any, tuple[Any, Any]] = {}  # of the states made below


@lru_cache(maxsize=256)
def _personal_state_type(shared: Any, personal: Any) -> Any:
    names = [name for name in shared._fields if name != "x"]
    own = [f"personal_{name}" for name in personal._fields if name != "x"]
    made = namedtuple(f"Personal{shared.__name__}", ("x", *names, *own))  # type: ignore[misc]
    _parts_of[made] = shared, personal
    return made


def _without_x(state: Any) -> list[Tensor]:
    return [part for name, part in state._asdict().items() if name != "x"]


def _with_x(kind: Any, x: Tensor, others: Sequence[Tensor]) -> Any:
    rest = iter(others)
    return kind(*(x if name == "x" else next(rest) for name in kind._fields))
