"""Losses, gradients and curvatures of the agents at any model, over all (or many) of their samples.

N: agents, D: parameters.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from crossgrad._numerics.seeding import key
from crossgrad._training.trainer import Training

SAMPLES_PER_AGENT = 1024  # from which an agent's gradient over all its data is estimated
SHARPNESS_SAMPLES = 256  # per agent, from which second derivatives are estimated
SAMPLES_PER_PASS = 512
MIN_ROUNDS, MAX_ROUNDS = 4, 30  # of the power iteration
SETTLED_CHANGE = 0.01  # relative change of the largest curvature in a round at which it has settled


class Sharpness(NamedTuple):
    """The largest curvature that was found, and whether the search has converged."""

    value: float
    settled: bool


class Slopes:
    """The agents' own losses as functions of a flat model."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.samples = [own.take(range(min(SAMPLES_PER_AGENT, len(own)))).loaded() for own in training.agents]
        self.few = [own.take(range(min(SHARPNESS_SAMPLES, len(own)))).loaded() for own in training.agents]
        self.all_of_them = all(len(own) <= SAMPLES_PER_AGENT for own in training.agents)
        module = training.model.module
        self.names = [name for name, p in module.named_parameters() if p.requires_grad]

    def gradient(self, x_D: Tensor, agent: int) -> tuple[Tensor, float]:
        """The gradient in float64 and the loss of one agent."""
        total_D, loss, count = torch.zeros_like(x_D, dtype=torch.float64), 0.0, len(self.samples[agent])
        for first in range(0, count, SAMPLES_PER_PASS):
            rows = slice(first, min(first + SAMPLES_PER_PASS, count))
            at = x_D.detach().clone().requires_grad_()
            inputs, labels = self.samples[agent].piece(rows.start, rows.stop)
            value = self._loss(at, agent, inputs, labels)
            share = (rows.stop - rows.start) / count
            (g_D,) = torch.autograd.grad(value, at)
            total_D += share * g_D.double()
            loss += share * float(value.detach())
        return total_D, loss

    def sharpness(self, x_D: Tensor, deadline: float, report: Callable[[str], None]) -> Sharpness:
        """The largest |curvature| of any agent's loss at `x`, by power iteration on Hessian-vector products.

        The estimate is a lower bound of the largest curvature. All agents take turns, so that the deadline (of
        `time.monotonic`), which counts after MIN_ROUNDS rounds, stops them all at the same round. `report` is called
        every round.
        """
        agents = len(self.few)
        generator = torch.Generator().manual_seed(key(self.training.settings.seed, "sharpness"))
        v_ND = torch.randn(agents, len(x_D), generator=generator, dtype=torch.float64)
        v_ND = (v_ND / v_ND.norm(dim=1, keepdim=True)).to(x_D)
        found = before = 0.0
        for round_ in range(MAX_ROUNDS):
            if round_ >= MIN_ROUNDS and (found - before <= SETTLED_CHANGE * found or time.monotonic() > deadline):
                break
            before = found
            for agent in range(agents):
                report(f"curvature {round_ + 1}")
                Hv_D = self._curve(x_D, agent, v_ND[agent])
                norm = float(Hv_D.double().norm())
                found = max(found, norm)
                v_ND[agent] = Hv_D / norm if norm > 0 else v_ND[agent]
        return Sharpness(found, found - before <= SETTLED_CHANGE * found)

    def _curve(self, x_D: Tensor, agent: int, v_D: Tensor) -> Tensor:
        """The Hessian of an agent's loss, times a vector."""
        at = x_D.detach().clone().requires_grad_()
        value = self._loss(at, agent, self.few[agent].inputs, self.few[agent].labels)
        (g_D,) = torch.autograd.grad(value, at, create_graph=True)
        if not g_D.requires_grad:  # the loss is linear in the model
            return torch.zeros_like(v_D)
        (Hv_D,) = torch.autograd.grad(g_D @ v_D, at)
        return Hv_D

    def _loss(self, x_D: Tensor, agent: int, inputs: Tensor, labels: Tensor) -> Tensor:
        training = self.training
        module, buffers = training.model.module, training.buffers
        module.train()
        buffers.load(*buffers.copy_of(agent))
        parameters = dict(zip(self.names, training.model.views(x_D), strict=True))
        devices = [x_D.device] if x_D.is_cuda else []
        with torch.random.fork_rng(devices=devices), torch.enable_grad():
            torch.manual_seed(
                key(training.settings.seed, "slopes", agent)
            )  # random layers draw the same numbers every time
            return training.task.batch_loss(
                lambda *args, **more: functional_call(module, parameters, args, more), inputs, labels
            )
