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

import dataclasses
import math
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from crossgrad import algorithms
from crossgrad._gradients.regularised import ClippedNorm, WeightDecay
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
GROUP_OPTIONS = {"params", "lr", "weight_decay", "param_names", "initial_lr"}  # the last is a scheduler's
SLOW_STEP_SECONDS = 20.0  # after which a step says what it may be waiting for


class Decentralised(torch.optim.Optimizer):
    """Any algorithm as an optimiser of this process's agent; schedulers of torch.optim work as usual.

    Args:
        model: this agent's module. Only parameters with `requires_grad` and buffers travel.
        algorithm: the update rule, with its hyper-parameters.
        graph: who hears whom; as many agents as there are processes.
        lr: the step size.
        params: parameter groups, if they are to differ in `lr` or `weight_decay`.
        seed: of what is random in the algorithm; the same in all processes.
        gossip: rounds of averaging per step, and how models are compressed in them.
        weight_decay: adds weight_decay * x to every gradient.
        clip_norm: the largest norm of a gradient, own or cross.
        keep_own_start: start from this process's own parameters instead of rank 0's.

    Raises:
        ValueError: the graph does not suit the algorithm, an option is out of range, or the processes disagree.
        TypeError: the model is wrapped in DistributedDataParallel.

    To accumulate gradients, call `backward` several times within the closure. To save and load, use the model's state
    dict and this optimiser's; load them after the optimiser has been made.

    >>> import crossgrad
    >>> model = nn.Linear(2, 1)
    >>> with crossgrad.process_group() as group:
    ...     graph = crossgrad.ring(group.processes)
    ...     opt = Decentralised(model, algorithms.DPSGD(), graph=graph, lr=0.01, weight_decay=1e-4)
    ...     def closure():
    ...         opt.zero_grad()
    ...         loss = model(torch.ones(3, 2)).square().mean()
    ...         loss.backward()
    ...         return loss
    ...     first, second = opt.step(closure), opt.step(closure)
    >>> bool(first > second)
    True
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
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
        keep_own_start: bool = False,
    ) -> None:
        if isinstance(model, nn.parallel.DistributedDataParallel):
            raise TypeError(
                "the model must not be wrapped in DistributedDataParallel, which averages gradients over all processes "
                "and would leave nothing decentralised. Pass model.module."
            )
        algorithm = (gossip or Gossip()).around(algorithm)
        if not 0 < lr <= 1e3:
            raise ValueError(f"the step size lr must be above 0 and at most 1000; found {lr}.")
        if not 0 <= weight_decay < math.inf:
            raise ValueError(f"weight_decay must be at least 0 and finite; found {weight_decay}.")
        if clip_norm is not None and not 0 < clip_norm < math.inf:
            raise ValueError(f"clip_norm must be above 0 and finite; found {clip_norm}.")
        defaults = {"lr": lr, "weight_decay": weight_decay}
        super().__init__(model.parameters() if params is None else params, defaults)
        _check_groups(self.param_groups)
        self.clip_norm = clip_norm
        self.group = current_group()
        check_graph(algorithm, graph, self.group.processes)
        self.algorithm, self.graph, self.step_number = algorithm, graph, 0
        self.group.agree(_what_must_be_alike(model, algorithm, graph))  # sizes first: gloo does not check them
        if not keep_own_start:
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
        self._slow = _SlowStep()
        self._settle()

    def step(self, closure: Closure | None = None) -> Any:
        """One step of this agent, together with its neighbours'; the loss of the own pass (None for an idle agent)."""
        if closure is None:
            raise ValueError(
                "decentralised optimisers evaluate neighbours' models on your batch, so step needs a closure that "
                "computes the loss and its gradients: opt.step(closure)."
            )
        gradient = ClosureGradient(self.flat, self.buffers, torch.enable_grad()(closure))
        with torch.no_grad(), self._slow.watching(self.step_number):
            wrapped, network = self._wrapped(gradient), self._network()
            self.agent_state = self.algorithm.step(self.agent_state, self._per_parameter("lr"), wrapped, network)
        self.step_number += 1
        self._settle()
        return gradient.loss

    @property
    def bytes_sent(self) -> int:
        """Bytes that this agent has sent so far."""
        return self.traffic.total

    def state_dict(self) -> dict[str, Any]:
        """Parameter groups, step number, bytes sent and a copy of the algorithm's tensors.

        The model's parameters and buffers are in the model's own state dict.
        """
        tensors = {name: value.clone() for name, value in self.agent_state._asdict().items() if name != "x"}
        groups, traffic = super().state_dict()["param_groups"], self.traffic.state_dict()
        return {"step": self.step_number, "algorithm": tensors, "param_groups": groups, "traffic": traffic}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state; the model's own state is loaded by the model."""
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        kept = {name: value.to(self.agent_state.x.device).clone() for name, value in state_dict["algorithm"].items()}
        wrong = [name for name, value in kept.items() if value.shape != getattr(self.agent_state, name).shape]
        if wrong:
            raise ValueError(f"the saved state is of another model or graph: the shapes of {', '.join(wrong)} differ.")
        self.agent_state = self.agent_state._replace(**kept)
        self.step_number = state_dict["step"]
        if "traffic" in state_dict:  # not in those of earlier versions
            self.traffic.load_state_dict(state_dict["traffic"])

    @torch.no_grad()
    def _take_over(self, model: nn.Module) -> None:
        """Start from rank 0's module, its frozen parameters and buffers included."""
        replaced = False
        for own in (*model.parameters(), *model.buffers()):
            theirs = own.detach().clone(memory_format=torch.contiguous_format)
            self.group.broadcast(theirs)
            replaced = replaced or not torch.equal(theirs, own)
            own.copy_(theirs)
        if replaced:
            warnings.warn(
                f"the model of rank {self.group.rank} differed from that of rank 0 and was replaced by it. Seed all "
                "processes alike; load a state dict of this agent after the optimiser is made, or pass "
                "keep_own_start=True.",
                stacklevel=3,
            )

    def _network(self) -> Any:
        return self.group.network(self.graph.at(self.step_number), self.context, self.step_number)

    def _settle(self) -> None:
        """Let the user's module hold the agent's new model and buffers."""
        self.flat.load(self.agent_state.x[0])
        self.buffers.load(*self.buffers.row(0))

    def _wrapped(self, gradient: "ClosureGradient") -> Any:
        """The closure's gradient with weight decay and clipping."""
        decay, wrapped = self._per_parameter("weight_decay"), gradient
        if isinstance(decay, Tensor) or decay:
            wrapped = WeightDecay(wrapped, decay)  # type: ignore[assignment]
        return wrapped if self.clip_norm is None else ClippedNorm(wrapped, self.clip_norm)

    def _per_parameter(self, option: str) -> Any:
        """An option of the groups: a number, or one for each parameter where the groups differ."""
        values = {id(p): group[option] for group in self.param_groups for p in group["params"]}
        chosen = [float(values[id(p)]) for p in self.flat.parameters]
        if len(set(chosen)) == 1:
            return chosen[0]
        return torch.cat([p.new_full((p.numel(),), one) for p, one in zip(self.flat.parameters, chosen, strict=True)])


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


def _check_groups(groups: Sequence[Mapping[str, Any]]) -> None:
    """Raise where a parameter group has an option that nobody would read."""
    unknown = sorted({key for group in groups for key in group} - GROUP_OPTIONS)
    if unknown:
        raise ValueError(
            f"parameter groups may have an lr and a weight_decay of their own; found {', '.join(unknown)}. Give "
            "hyper-parameters to the algorithm, such as optim.CGA(model, graph=graph, momentum=0.9)."
        )


class _SlowStep:
    """Writes a line where a step takes so long that another process may have left its loop."""

    def __init__(self) -> None:
        self.since, self.step, self.told = math.inf, 0, False  # when the step began; inf between steps
        self.thread: threading.Thread | None = None

    @contextmanager
    def watching(self, step: int) -> Iterator[None]:
        """Watch one step."""
        self.step, self.since = step, time.monotonic()
        if self.thread is None:
            self.thread = threading.Thread(target=self._watch, daemon=True)
            self.thread.start()
        try:
            yield
        finally:
            self.since = math.inf

    def _watch(self) -> None:
        while not self.told:
            time.sleep(SLOW_STEP_SECONDS / 4)
            if time.monotonic() - self.since > SLOW_STEP_SECONDS:
                self.told = True
                sys.stderr.write(
                    f"Step {self.step} has been waiting for {SLOW_STEP_SECONDS:.0f} seconds. All processes must take "
                    "equally many steps: where loops may differ in length, use `for batch in group.in_step(loader)`.\n"
                )


def _plain_name(name: str) -> str:
    """A name without case, hyphens and underscores.

    >>> _plain_name("comp_cga") == _plain_name("CompCGA") == _plain_name("compcga")
    True
    """
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _factories() -> dict[str, Callable[..., Any]]:
    """What makes each registered algorithm, under its registered name and under that of its class or function."""
    named = {_plain_name(name): make for name, make in algorithms.ALGORITHMS.items()}
    return named | {_plain_name(make.__name__): make for make in algorithms.ALGORITHMS.values()}


def __getattr__(name: str) -> Any:
    """Every registered algorithm as an optimiser: `optim.CGA(model, graph=graph, lr=0.01, momentum=0.9)`."""
    make = None if name.startswith("_") else _factories().get(_plain_name(name))
    if make is None:
        raise AttributeError(f"module 'crossgrad.optim' has no attribute {name!r}")
    options = ("lr", "params", "seed", "gossip", "weight_decay", "clip_norm", "keep_own_start")

    def optimiser(model: nn.Module, *, graph: AnyGraph, **given: Any) -> Decentralised:
        own = {key: value for key, value in given.items() if key in options}
        base = make()
        try:
            algorithm = dataclasses.replace(base, **{key: given[key] for key in given.keys() - own.keys()})
        except TypeError:
            valid = sorted({*options, *(f.name for f in dataclasses.fields(base))})
            wrong = sorted(given.keys() - set(valid))
            raise TypeError(f"{name} has no option {', '.join(wrong)}. Valid are: {', '.join(valid)}.") from None
        return Decentralised(model, algorithm, graph=graph, **own)

    optimiser.__name__ = optimiser.__qualname__ = name
    optimiser.__doc__ = f"{make.__doc__}\n\n    As an optimiser of this process's agent: see `Decentralised`."
    return optimiser


def __dir__() -> list[str]:
    return sorted(["Decentralised", *(make.__name__ for make in algorithms.ALGORITHMS.values())])
