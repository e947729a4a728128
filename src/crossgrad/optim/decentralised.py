"""Any algorithm as an optimiser of this process's agent."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crossgrad._gradients.regularised import ClippedNorm, WeightDecay
from crossgrad._network.context import NetworkContext
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad._processes.torchrun import current_group
from crossgrad._training.arguments import as_names, as_state
from crossgrad._training.numbers import check_number
from crossgrad._training.start import started_from
from crossgrad._training.validate import check_faults, check_graph
from crossgrad.algorithms import Algorithm
from crossgrad.algorithms.gossip_rounds import Gossip
from crossgrad.algorithms.personal import with_personal
from crossgrad.graphs import AnyGraph
from crossgrad.graphs.faults import Faults
from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel
from crossgrad.models.frozen import freeze_
from crossgrad.models.packed import pack_model, unpack_model
from crossgrad.models.personal import personal_names
from crossgrad.optim.agreement import agreed_settings, take_over_start
from crossgrad.optim.closure import Closure, ClosureGradient
from crossgrad.optim.slow_step import SlowStep

GROUP_OPTIONS = {"params", "lr", "weight_decay", "param_names", "initial_lr"}  # the last is a scheduler's


class Decentralised(torch.optim.Optimizer):
    """Any algorithm as an optimiser of this process's agent; schedulers of torch.optim work as usual.

    Args:
        model: this agent's module. Only parameters with `requires_grad` and buffers travel.
        algorithm: the update rule, with its hyper-parameters.
        graph: who receives from whom, and the weights; one agent for each process.
        lr: the step size.
        params: parameter groups, if they are to differ in `lr` or `weight_decay`.
        seed: seed of random choices of the algorithm; the same in all processes.
        gossip: rounds of averaging per step, and how models are compressed in them.
        weight_decay: adds weight_decay * x to every gradient.
        clip_norm: the largest norm of a gradient, own or cross.
        keep_own_start: start from this process's own parameters instead of rank 0's.
        personal: names, with * and ?, of parameters, buffers or modules that stay here: they are trained, never sent.
        frozen: names, with * and ?, of parameters or modules to freeze: they are not trained, and never sent.
        start: a state dict, or a safetensors file of one, that is loaded into the model.

    Raises:
        ValueError: the graph does not suit the algorithm, an option is out of range, or the processes disagree.
        TypeError: the model is wrapped in DistributedDataParallel.

    To accumulate gradients, call `backward` several times within the closure. To save and load, use the model's state
    dict and this optimiser's; load them after the optimiser has been made.

    >>> import crossgrad
    >>> model = nn.Linear(2, 1)
    >>> with crossgrad.process_group() as group:
    ...     graph = crossgrad.ring(group.processes)
    ...     opt = Decentralised(model, crossgrad.DPSGD(), graph=graph, lr=0.01, weight_decay=1e-4)
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
        personal: Sequence[str] = (),
        frozen: Sequence[str] = (),
        start: Mapping[str, Tensor] | str | Path | None = None,
    ) -> None:
        if isinstance(model, nn.parallel.DistributedDataParallel):
            raise TypeError(
                "the model must be a plain module; found DistributedDataParallel, which averages gradients over all "
                "processes and would leave nothing decentralised. Pass model.module."
            )
        algorithm = (gossip or Gossip()).around(algorithm)
        check_number("lr", lr, hint=" For a schedule, make a torch.optim.lr_scheduler of this optimiser.")
        check_number("weight_decay", weight_decay)
        check_number("clip_norm", clip_norm, optional=True)
        personal, frozen = as_names("personal", personal), as_names("frozen", frozen)
        if not 0 < lr <= 1e3:
            raise ValueError(f"the step size lr must be above 0 and at most 1000; found {lr}.")
        if not 0 <= weight_decay < math.inf:
            raise ValueError(f"weight_decay must be at least 0 and finite; found {weight_decay}.")
        if clip_norm is not None and not 0 < clip_norm < math.inf:
            raise ValueError(f"clip_norm must be above 0 and finite; found {clip_norm}.")
        if start is not None:
            model.load_state_dict(started_from(model, as_state(start)).state_dict())
        freeze_(model, frozen)
        defaults = {"lr": lr, "weight_decay": weight_decay}
        super().__init__(model.parameters() if params is None else params, defaults)
        _check_groups(self.param_groups)
        self.clip_norm = clip_norm
        self.group = current_group()
        check_graph(algorithm, graph, self.group.processes)
        check_faults(algorithm, graph, Faults(drop=0.5 if self.group.links_may_fail else 0.0))
        self.algorithm, self.graph, self.step_number = algorithm, graph, 0
        agreed = agreed_settings(model, algorithm, graph, personal)
        self.group.agree(agreed)  # sizes first: gloo does not check them
        if not keep_own_start:
            take_over_start(self.group, model, personal_names(model, personal) if personal else set())
        self.flat = FlatModel(model, personal=personal)
        self.algorithm = algorithm = with_personal(algorithm, self.flat.shared, sum(self.flat.sizes))
        in_groups = {id(p) for group in self.param_groups for p in group["params"]}
        if missing := sum(id(p) not in in_groups for p in self.flat.parameters):
            raise ValueError(
                f"every trainable parameter must be in a parameter group; {missing} are in none. Add them, or freeze "
                f"them by requires_grad_(False)."
            )
        self.buffers = Buffers.of(model, 1, personal)
        self.traffic = Traffic(graph.union(), kinds=kinds_of(algorithm))
        shard = self.group.shard(graph.agents)
        self.context = NetworkContext(shard, graph.union(), self.traffic, self.buffers, seed)
        self.agent_state = algorithm.init(self.flat.start[None].clone(), self._network())
        self._slow = SlowStep()
        self._settle()

    def step(self, closure: Closure | None = None) -> Any:
        """Take one step together with the neighbours; return the loss of the own pass (None for an idle agent)."""
        if closure is None:
            raise ValueError(
                "step needs a closure that computes the loss and its gradients, as neighbours' models are evaluated on "
                "your batch; found none. Call opt.step(closure)."
            )
        gradient = ClosureGradient(self.flat, self.buffers, torch.enable_grad()(closure))
        watching = nullcontext() if self.group.links_may_fail else self._slow.watching(self.step_number)
        with torch.no_grad(), watching, self.group.watched(self.step_number):
            self.step_number = self.group.begin_step(self, self.step_number)
            wrapped, network = self._wrapped(gradient), self._network()
            self.agent_state = self.algorithm.step(self.agent_state, self._per_parameter("lr"), wrapped, network)
        self.step_number += 1
        self.group.end_step()
        self._settle()
        return gradient.loss

    @property
    def bytes_sent(self) -> int:
        """Bytes that this agent has sent so far."""
        return self.traffic.total

    def model_bytes(self) -> bytes:
        """This agent's model and floating buffers."""
        return pack_model(self.agent_state.x[0], self.buffers, self.flat.shared)

    @torch.no_grad()
    def adopt(self, content: bytes | bytearray) -> None:
        """Take over a neighbour's model; all other state of the algorithm begins anew.

        Raises:
            ValueError: it is not a model of this kind, or has numbers that are not finite.
        """
        x_D, floats_F = unpack_model(content, self.agent_state.x[0], self.buffers, self.flat.shared)
        self.buffers.floats_NF[0] = floats_F
        self.agent_state = self.algorithm.init(x_D[None].clone(), self._network())
        self._settle()

    def state_dict(self) -> dict[str, Any]:
        """Parameter groups, step number, bytes sent and a copy of the algorithm's tensors.

        The model's parameters and buffers are in the model's own state dict.
        """
        tensors = {name: value.clone() for name, value in self.agent_state._asdict().items() if name != "x"}
        groups, traffic = super().state_dict()["param_groups"], self.traffic.state_dict()
        return {"step": self.step_number, "algorithm": tensors, "param_groups": groups, "traffic": traffic}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a saved state; the model's own state is loaded by the model."""
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        kept = {name: value.to(self.agent_state.x.device).clone() for name, value in state_dict["algorithm"].items()}
        wrong = [name for name, value in kept.items() if value.shape != getattr(self.agent_state, name).shape]
        if wrong:
            raise ValueError(
                f"a saved state must be of the same model and graph; the shapes of {', '.join(wrong)} differ. Load it "
                "with those that it was saved with."
            )
        self.agent_state = self.agent_state._replace(**kept)
        self.step_number = state_dict["step"]
        if "traffic" in state_dict:  # not in those of earlier versions
            self.traffic.load_state_dict(state_dict["traffic"])

    def _network(self) -> Any:
        return self.group.network(self.graph.at(self.step_number), self.context, self.step_number)

    def _settle(self) -> None:
        """Copy the agent's new model and buffers into the user's module."""
        self.flat.load(self.agent_state.x[0])
        self.buffers.load(*self.buffers.row(0))

    def _wrapped(self, gradient: ClosureGradient) -> Any:
        """The closure's gradient with weight decay and clipping."""
        decay, wrapped = self._per_parameter("weight_decay"), gradient
        if isinstance(decay, Tensor) or decay:
            wrapped = WeightDecay(wrapped, decay)  # type: ignore[assignment]
        return wrapped if self.clip_norm is None else ClippedNorm(wrapped, self.clip_norm)

    def _per_parameter(self, option: str) -> Any:
        """An option of the parameter groups: one number, or one for each parameter where groups differ."""
        values = {id(p): group[option] for group in self.param_groups for p in group["params"]}
        chosen = [float(values[id(p)]) for p in self.flat.parameters]
        if len(set(chosen)) == 1:
            return chosen[0]
        return torch.cat([p.new_full((p.numel(),), one) for p, one in zip(self.flat.parameters, chosen, strict=True)])


def _check_groups(groups: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError if a parameter group has an option that would be ignored."""
    unknown = sorted({key for group in groups for key in group} - GROUP_OPTIONS)
    if unknown:
        raise ValueError(
            f"parameter groups may have an lr and a weight_decay of their own; found {', '.join(unknown)}. Give "
            "hyper-parameters to the algorithm, such as optim.CGA(model, graph=graph, momentum=0.9)."
        )
