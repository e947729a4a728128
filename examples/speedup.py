"""The linear speed-up of the paper's Corollary 1: N agents reach the same error in an N-th of the steps.

`python examples/speedup.py --out docs/theory` runs noisy quadratics on a ring, alpha = scale sqrt(N / K), and writes
speedup.json and speedup.png: the mean of |grad F|^2 over the K steps against N K. All is in float64, by the library's
own algorithms; each step size is within the corrected limit of Theorem 1, and so is each error within its bound.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad.algorithms import CGA, DPMSGD
from crossgrad.graphs import ring
from crossgrad.models.buffers import Buffers
from crossgrad.theory import Constants, corrected_bound, corrected_smallest_steps

SCALE, MOMENTUM, SIZE, SIGMA, DELTA = 0.1, 0.5, 40, 14.0, 2.0
CURVATURES = np.linspace(0.3, 1.0, SIZE)  # so L = 1
METHODS = {"DPMSGD": DPMSGD(MOMENTUM), "CGA": CGA(MOMENTUM)}
AGENTS, STEPS = (1, 2, 4, 8, 16), (2000, 8000)
START = 1.0  # in each direction; the minimum is at 0


class Quadratics:
    """Agent i's loss is (x - c_i)' diag(CURVATURES) (x - c_i) / 2, and its gradient has noise of its own."""

    sizes = (SIZE,)

    def __init__(self, agents: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        c = self.rng.normal(size=(agents, SIZE))
        c -= c.mean(axis=0)
        spread = np.sqrt(np.square(CURVATURES * c).sum() / agents)
        self.c = c * (DELTA / spread if agents > 1 else 0.0)
        self.noise = np.zeros((agents, SIZE))

    def __call__(self, x: Tensor, active: Tensor | None = None) -> Tensor:
        self.noise = SIGMA / SIZE**0.5 * self.rng.normal(size=x.shape)
        return torch.from_numpy(CURVATURES * (x.numpy() - self.c) + self.noise)

    def on_demand(self, x: Tensor, active: Tensor | None = None) -> Callable[[slice], Tensor]:
        g = self(x, active)
        return lambda rows: g[rows]

    def cross(self, models: Sequence[Tensor], agents: Sequence[int]) -> Tensor:
        if not len(agents):
            return torch.zeros(0, SIZE, dtype=torch.float64)
        chosen = list(agents)
        return torch.from_numpy(CURVATURES * (torch.stack(list(models)).numpy() - self.c[chosen]) + self.noise[chosen])


def run(name: str, agents: int, steps: int) -> dict:
    """One run: its error, its epsilon (from the velocities) and the corrected bound."""
    method, graph, grad, lr = METHODS[name], ring(agents), Quadratics(agents, agents), SCALE * (agents / steps) ** 0.5
    no_buffers = Buffers.of(nn.Linear(1, 1).double(), agents)
    setting = NetworkContext(Shard.of(agents), graph, Traffic(graph, kinds=kinds_of(method)), no_buffers, 0)
    state = method.init(torch.full((agents, SIZE), START, dtype=torch.float64), AgentNetwork(graph, setting, 0))
    error = epsilon_squared = 0.0
    for step in range(steps):
        x, v = state.x.numpy().copy(), state.v.numpy().copy()
        error += float(np.square(CURVATURES * x.mean(axis=0)).sum()) / steps
        state = method.step(state, lr, grad, AgentNetwork(graph, setting, step))
        used = (MOMENTUM * v - state.v.numpy()) / lr
        own = CURVATURES * (x - grad.c) + grad.noise
        epsilon_squared += float(np.square(used - own).sum()) / agents / steps
    constants = Constants(
        L=1.0, sigma=SIGMA, delta=DELTA if agents > 1 else 0.0, epsilon=epsilon_squared**0.5,
        start=float(CURVATURES.sum()) * START**2 / 2, agents=agents, momentum=MOMENTUM, lr=lr,
        mixing_rate=graph.mixing_rate, steps=steps,
    )  # fmt: skip
    return {
        "method": name, "agents": agents, "steps": steps, "lr": lr, "error": error,
        "error_times_root_NK": error * (agents * steps) ** 0.5, "epsilon": constants.epsilon,
        "bound": corrected_bound(constants).total, "smallest_steps": corrected_smallest_steps(constants, SCALE),
    }  # fmt: skip


def draw(lines: list[dict], path: Path) -> None:
    figure = Figure(figsize=(8.4, 3.6), layout="constrained", dpi=100)
    for axes, name in zip(figure.subplots(1, len(METHODS), sharey=True), METHODS, strict=True):
        for steps, marker, away in zip(STEPS, "os", ((-6, -12), (5, 4)), strict=True):
            chosen = [line for line in lines if (line["method"], line["steps"]) == (name, steps)]
            axes.loglog(
                [n["agents"] * steps for n in chosen], [n["error"] for n in chosen], marker, label=f"K = {steps}"
            )
            for line in chosen:
                at = line["agents"] * steps, line["error"]
                axes.annotate(f"N={line['agents']}", at, away, textcoords="offset points", fontsize=7)
        ends = np.array([min(STEPS), max(STEPS) * max(AGENTS)])
        first = next(line for line in lines if line["method"] == name)
        axes.loglog(ends, first["error"] * (ends[0] / ends) ** 0.5, "k--", linewidth=0.8, label="1 / sqrt(N K)")
        axes.set(title=f"{name}, ring, alpha = {SCALE} sqrt(N / K)", xlabel="N K")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
    figure.axes[0].set_ylabel("mean of |grad F|^2 over K steps")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/speedup"), help="folder for speedup.json and .png")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    lines = []
    for name in METHODS:
        for steps in STEPS:
            for agents in AGENTS:
                lines.append(run(name, agents, steps))
                print(json.dumps(lines[-1]), flush=True)
    slopes = {}
    for name in METHODS:
        of = [line for line in lines if line["method"] == name]
        slopes[name] = float(
            np.polyfit(np.log([n["agents"] * n["steps"] for n in of]), np.log([n["error"] for n in of]), 1)[0]
        )
    (out / "speedup.json").write_text(json.dumps({"slopes": slopes, "runs": lines}, indent=1) + "\n")
    draw(lines, out / "speedup.png")
    print(f"Slope of log error over log N K (-0.5 expected): {slopes}")


if __name__ == "__main__":
    main()
