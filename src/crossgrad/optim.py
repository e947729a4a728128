"""Optimisers for a training loop of your own, one agent per process: the same algorithms behind the familiar face.

    with crossgrad.process_group() as group:
        opt = crossgrad.optim.CGA(model, graph=crossgrad.ring(group.processes), lr=0.01, momentum=0.9)
        for inputs, labels in group.in_step(loader):
            def closure():
                opt.zero_grad()
                loss = cross_entropy(model(inputs), labels)
                loss.backward()
                return loss
            opt.step(closure)

The closure is called once for the own gradient and, by algorithms with cross-gradients, once more for every
neighbour, with that neighbour's model in place of one's own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crossgrad import algorithms
from crossgrad._network.context import NetworkContext
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad._processes.torchrun import current_group
from crossgrad._training.validate import check_graph
from crossgrad.algorithms import Algorithm
from crossgrad.algorithms.gossip_rounds import Gossip
from crossgrad.graphs import AnyGraph
from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel

Closure = Callable[[], Any]


class Decentralised(torch.optim.Optimizer):
    """Any algorithm as an optimiser of this process's agent.

    The processes start from rank 0's parameters and buffers, whatever each has initialised. Parameter groups may
    have step sizes of their own; schedulers work as usual.
    """

    def __init__(
        self,
        model: nn.Module,
        algorithm: Algorithm[Any],
        *,
        graph: AnyGraph,
        lr: float = 0.01,
        params: Any = None,
        seed: int = 0,
        gossip: Gossip | None = None,
    ) -> None:
        algorithm = (gossip or Gossip()).around(algorithm)
        if not 0 < lr <= 1e3:
            raise ValueError(f"the step size lr must be above 0 and at most 1000; found {lr}.")
        super().__init__(model.parameters() if params is None else params, {"lr": lr})
        self.group = current_group()
        check_graph(algorithm, graph, self.group.processes)
        self.algorithm, self.graph, self.step_number = algorithm, graph, 0
        self.group.agree(_what_must_be_alike(model, algorithm, graph))  # sizes first: gloo does not check them
        self._take_over(model)
        self.flat = FlatModel(model)
        in_groups = {id(p) for group in self.param_groups for p in group["params"]}
        if missing := sum(id(p) not in in_groups for p in self.flat.parameters):
            raise ValueError(
                f"every trainable parameter must be in a parameter group; {missing} are in none. Add them, or freeze "
                f"them by requires_grad_(False)."
            )
        self.buffers = Buffers.of(model, 1)
        self.traffic = Traffic(graph.union(), kinds=kinds_of(algorithm))
        shard = self.group.shard(graph.agents)
        self.context = NetworkContext(shard, graph.union(), self.traffic, self.buffers, seed)
        self.agent_state = algorithm.init(self.flat.start[None].clone(), self._network())
        self._settle()

    def step(self, closure: Closure | None = None) -> Any:
        """One step of this agent, together with its neighbours'; the loss of the own pass (None for an idle agent)."""
        if closure is None:
            raise ValueError(
                "decentralised optimisers evaluate neighbours' models on your batch, so step needs a closure that "
                "computes the loss and its gradients: opt.step(closure)."
            )
        gradient = ClosureGradient(self.flat, self.buffers, torch.enable_grad()(closure))
        with torch.no_grad():
            self.agent_state = self.algorithm.step(self.agent_state, self._lr(), gradient, self._network())
        self.step_number += 1
        self._settle()
        return gradient.loss

    @property
    def bytes_sent(self) -> int:
        """Bytes that this agent has sent so far."""
        return self.traffic.total

    def state_dict(self) -> dict[str, Any]:
        """Parameter groups, step number and a copy of the algorithm's tensors; the model is saved with the model."""
        tensors = {name: value.clone() for name, value in self.agent_state._asdict().items() if name != "x"}
        return {"step": self.step_number, "algorithm": tensors, "param_groups": super().state_dict()["param_groups"]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state; the model's own state is loaded by the model."""
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        kept = {name: value.to(self.agent_state.x.device).clone() for name, value in state_dict["algorithm"].items()}
        wrong = [name for name, value in kept.items() if value.shape != getattr(self.agent_state, name).shape]
        if wrong:
            raise ValueError(f"the saved state is of another model or graph: the shapes of {', '.join(wrong)} differ.")
        self.agent_state = self.agent_state._replace(**kept)
        self.step_number = state_dict["step"]

    @torch.no_grad()
    def _take_over(self, model: nn.Module) -> None:
        """Start from rank 0's module, its frozen parameters and buffers included."""
        for own in (*model.parameters(), *model.buffers()):
            leaders = own.detach().contiguous()
            self.group.broadcast(leaders)
            own.copy_(leaders)

    def _network(self) -> Any:
        return self.group.network(self.graph.at(self.step_number), self.context, self.step_number)

    def _settle(self) -> None:
        """Let the user's module hold the agent's new model and buffers."""
        self.flat.load(self.agent_state.x[0])
        self.buffers.load(*self.buffers.row(0))

    def _lr(self) -> Any:
        """The step size: a number, or one for each parameter where the groups differ."""
        rates = {id(p): group["lr"] for group in self.param_groups for p in group["params"]}
        chosen = [float(rates[id(p)]) for p in self.flat.parameters]
        if len(set(chosen)) == 1:
            return chosen[0]
        return torch.cat([p.new_full((p.numel(),), rate) for p, rate in zip(self.flat.parameters, chosen, strict=True)])


class ClosureGradient:
    """The gradient of a closure at any parameters; random layers draw alike in all passes of a step."""

    def __init__(self, flat: FlatModel, buffers: Buffers, closure: Closure) -> None:
        self.flat, self.buffers, self.closure = flat, buffers, closure
        self.loss: Any = None
        self.sizes = flat.sizes
        self.noise = _random_state(flat.start.device)

    def __call__(self, x_ND: Tensor, active_N: Tensor | None = None) -> Tensor:
        g_ND = torch.zeros_like(x_ND)
        if active_N is None or bool(active_N[0]):
            self.noise = _random_state(x_ND.device)
            self.buffers.load(*self.buffers.row(0))
            self.loss = self._backward(x_ND[0], g_ND[0])
            self.buffers.store(*self.buffers.row(0))
        return g_ND

    def cross(self, models: Sequence[Tensor], hosts: Sequence[int]) -> Tensor:
        g_MD = torch.zeros(len(models), sum(self.sizes), dtype=self.flat.start.dtype, device=self.flat.start.device)
        afterwards = _random_state(g_MD.device)
        for x, g in zip(models, g_MD, strict=True):
            _set_random_state(self.noise)
            self.buffers.load(*self.buffers.copy_of(0))
            self._backward(x, g)
        _set_random_state(afterwards)
        self.buffers.load(*self.buffers.row(0))
        return g_MD

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        g_ND = self(x_ND, active_N)
        return lambda rows: g_ND[rows]

    def _backward(self, x_D: Tensor, g_D: Tensor) -> Any:
        self.flat.load(x_D)
        loss = self.closure()
        start = 0
        for p, size in zip(self.flat.parameters, self.sizes, strict=True):
            if p.grad is not None:
                g_D[start : start + size] = p.grad.reshape(-1)
            p.grad = None
            start += size
        if not bool(g_D.isfinite().all()):
            raise FloatingPointError(
                f"the gradient of this agent's loss is not finite (the loss is {loss}), so nothing of it is sent. Look "
                "at its data, or use a smaller step size."
            )
        return loss


def _what_must_be_alike(model: nn.Module, algorithm: Algorithm[Any], graph: AnyGraph) -> str:
    """All that decides which messages are sent and how large they are."""
    tensors = [(tuple(t.shape), str(t.dtype), t.requires_grad) for t in (*model.parameters(), *model.buffers())]
    first = graph.at(0).weights
    return repr((tensors, algorithm, graph.name, graph.agents, first.indices.tolist(), first.data.tolist()))


def _random_state(device: torch.device) -> tuple[Tensor, ...]:
    if device.type == "cuda":
        return torch.get_rng_state(), torch.cuda.get_rng_state(device)
    return (torch.get_rng_state(),)


def _set_random_state(state: tuple[Tensor, ...]) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state(state[1])


def DPSGD(model: nn.Module, *, graph: AnyGraph, lr: float = 0.01) -> Decentralised:  # noqa: N802
    """Decentralised parallel SGD."""
    return Decentralised(model, algorithms.DPSGD(), graph=graph, lr=lr)


def DPMSGD(model: nn.Module, *, graph: AnyGraph, lr: float = 0.01, momentum: float = 0.98) -> Decentralised:  # noqa: N802
    """DPSGD with momentum."""
    return Decentralised(model, algorithms.DPMSGD(momentum), graph=graph, lr=lr)


def SGP(model: nn.Module, *, graph: AnyGraph, lr: float = 0.01, momentum: float = 0.0) -> Decentralised:  # noqa: N802
    """Stochastic gradient push."""
    return Decentralised(model, algorithms.SGP(momentum), graph=graph, lr=lr)


def SwarmSGD(  # noqa: N802
    model: nn.Module, *, graph: AnyGraph, lr: float = 0.01, momentum: float = 0.0, matching: bool = True
) -> Decentralised:
    """Random pairs of neighbours step and average; a closure has one batch, so there is one local step."""
    return Decentralised(model, algorithms.SwarmSGD(matching, momentum=momentum), graph=graph, lr=lr)


def CGA(  # noqa: N802
    model: nn.Module, *, graph: AnyGraph, lr: float = 0.01, momentum: float = 0.98, nesterov: bool = False
) -> Decentralised:
    """Cross-gradient aggregation."""
    return Decentralised(model, algorithms.CGA(momentum, nesterov), graph=graph, lr=lr)


def CompCGA(model: nn.Module, *, graph: AnyGraph, lr: float = 0.01, momentum: float = 0.98) -> Decentralised:  # noqa: N802
    """CGA with gradients of one bit per number and error feedback."""
    return Decentralised(model, algorithms.comp_cga(momentum), graph=graph, lr=lr)


def QGDSGDm(model: nn.Module, *, graph: AnyGraph, lr: float = 0.01, momentum: float = 0.9) -> Decentralised:  # noqa: N802
    """DSGD with quasi-global momentum."""
    return Decentralised(model, algorithms.QGDSGDm(momentum), graph=graph, lr=lr)


def GradientTracking(model: nn.Module, *, graph: AnyGraph, lr: float = 0.01) -> Decentralised:  # noqa: N802
    """Gradient tracking."""
    return Decentralised(model, algorithms.GradientTracking(), graph=graph, lr=lr)


def EDM(model: nn.Module, *, graph: AnyGraph, lr: float = 0.01, momentum: float = 0.98) -> Decentralised:  # noqa: N802
    """Exact diffusion with momentum."""
    return Decentralised(model, algorithms.EDM(momentum), graph=graph, lr=lr)
