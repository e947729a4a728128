"""Memory, growth with the number of agents, and what the framework itself costs. `make bench` runs it.

1. growth: CGA with the MLP 64-32-10 on rings of 10 to 10,000 agents, time and memory per agent;
2. peak memory of CGA with 40 agents: the paper's CNN fully connected, VGG11 on a ring, both with small batches;
3. overhead: a step whose gradients cost nothing, as a multiple of one Pi @ X (scipy.sparse, the same X);
4. start-up: `import crossgrad` and `crossgrad --help`.

Steps are timed in CPU seconds of one thread, so that others on the machine do not show; overhead is a ratio of medians
of rounds that take turns. Memory is the peak of a process of its own, as the system counts it.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keeping

RINGS = (10, 100, 1000, 10_000)
PEAKS = {
    "CNN 28x28, 40 agents, fully connected": ("cnn", "fully-connected", 40, "1x28x28", 1, 3.0),
    "VGG11 32x32, 40 agents, ring": ("vgg11", "ring", 40, "3x32x32", 1, 6.0),
}
OVERHEADS = (
    ("dpsgd", "ring", 40, 100_000), ("dpmsgd", "ring", 40, 100_000), ("dpmsgd", "fully-connected", 40, 100_000),
    ("dpmsgd", "ring", 1000, 2410), ("dpmsgd", "ring", 10, 1_000_000), ("sgp", "ring", 40, 100_000),
    ("edm", "ring", 40, 100_000), ("cga", "ring", 40, 100_000), ("cga", "fully-connected", 10, 100_000),
)  # fmt: skip


def samples(count: int, shape: tuple[int, ...]):
    """Random data: what it shows does not matter for time and memory."""
    import torch

    from crossgrad.data import Samples

    return Samples(torch.randn(count, *shape), torch.arange(count) % 10)


def training(model: str, graph: str, agents: int, shape: tuple[int, ...], batch: int):
    from crossgrad import models
    from crossgrad._training.settings import TrainingSettings
    from crossgrad._training.trainer import Training
    from crossgrad.algorithms import CGA
    from crossgrad.graphs import GRAPHS

    own = [samples(2 * batch, shape) for _ in range(agents)]
    module = models.build(models.MODELS[model](), shape, 10, seed=0)
    return Training(
        module, own, CGA(0.9), GRAPHS[graph]().build(agents, 0), TrainingSettings(batch_size=batch, steps=1000)
    )


def peak() -> float:
    """Bytes at most that this process has held."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * float(next(line for line in status if line.startswith("VmHWM")).split()[1])


def growing(agents: int) -> dict:
    """Seconds and bytes per agent of a ring; bytes beyond those of ten agents are counted by the caller."""
    run = training("mlp", "ring", agents, (1, 8, 8), 8)
    run.step()
    times = []
    for _ in range(max(3, min(30, 3000 // agents))):
        began = time.process_time()
        run.step()
        times.append(time.process_time() - began)
    began = time.process_time()
    run.evaluate()
    return {"step": statistics.median(times), "evaluation": time.process_time() - began, "peak": peak()}


def peaking(model: str, graph: str, agents: int, shape: tuple[int, ...], batch: int) -> dict:
    """The peak of one step and one evaluation of CGA as the command would run it, and what was predicted for them."""
    from crossgrad._cli.freed_memory import keep_freed_memory
    from crossgrad.data import Split
    from crossgrad.experiments import files

    keep_freed_memory()
    chosen = files.parse(
        f"agents={agents}\nalgorithm='cga'\ngraph='{graph}'\nmodel='{model}'\npartition='iid'\n"
        f"training={{steps=1, batch_size={batch}}}"
    )
    forecasts = []
    run = chosen.start(Split(samples(2 * batch * agents, shape), samples(100, shape)), admit=forecasts.append)
    run.step()
    run.evaluate()
    return {"peak": peak(), "predicted": forecasts[0].total, "parameters": forecasts[0].parameters}


class Free:
    """Gradients that cost nothing: always the same numbers, in the same memory (so the step size must be 1)."""

    def __init__(self, agents: int, size: int) -> None:
        import torch

        self.sizes, self.g = (size,), torch.randn(agents, size)
        self.cross_gradients = torch.empty(0, size)

    def __call__(self, x, active=None):
        return self.g

    def on_demand(self, x, active=None):
        return lambda rows: self.g[rows]

    def cross(self, models, agents):
        if len(self.cross_gradients) < len(models):
            self.cross_gradients = self.g[[agent for agent in agents]]
        return self.cross_gradients[: len(models)]


def free(name: str, graph: str, agents: int, size: int) -> dict[str, Callable[[], object]]:
    """A step with free gradients, and one product of as many numbers, by SciPy and by PyTorch."""
    import numpy as np
    import torch
    from scipy.sparse import csr_array

    from crossgrad._network.context import NetworkContext
    from crossgrad._network.network import AgentNetwork
    from crossgrad._network.shard import Shard
    from crossgrad._network.traffic import Traffic, kinds_of
    from crossgrad.algorithms import ALGORITHMS
    from crossgrad.graphs import GRAPHS
    from crossgrad.models.buffers import Buffers

    built = GRAPHS[graph]().build(agents, 0)
    buffers = Buffers(torch.zeros(agents, 0), torch.zeros(agents, 0).long(), ())
    algorithm, work = ALGORITHMS[name](), Free(agents, size)
    traffic = Traffic(built, kinds=kinds_of(algorithm))
    setting = NetworkContext(Shard.of(agents), built, traffic, buffers, 0)
    state = algorithm.init(torch.randn(agents, size), AgentNetwork(built, setting, 0))
    weights, dense = csr_array(built.weights.astype(np.float32)), torch.from_numpy(built.dense()).float()
    X = torch.randn(agents, size)
    return {
        "step": lambda: algorithm.step(state, 1.0, work, AgentNetwork(built, setting, 0)),
        "sparse": lambda: weights @ X.numpy(),
        "dense": lambda: dense @ X,
    }


def overheads() -> list[dict]:
    """The same in turns."""
    rows = []
    for name, graph, agents, size in OVERHEADS:
        actions = free(name, graph, agents, size)
        times: dict[str, list[float]] = {action: [] for action in actions}
        for _ in range(9):
            for action, run in actions.items():
                began = time.process_time()
                run()
                times[action].append(time.process_time() - began)
        median = {action: statistics.median(values[1:]) for action, values in times.items()}
        case = {"algorithm": name, "graph": graph, "agents": agents, "parameters": size}
        rows.append(case | median | {"ratio": median["step"] / median["sparse"]})
    return rows


def start_up() -> dict:
    """Seconds of a fresh process, the least of three."""
    commands = {
        "python": ["-c", "pass"],
        "import crossgrad": ["-c", "import crossgrad"],
        "crossgrad --help": ["-m", "crossgrad", "--help"],
        "import torch": ["-c", "import torch"],
    }
    least = dict.fromkeys(commands, float("inf"))
    for _ in range(3):
        for name, arguments in commands.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            least[name] = min(least[name], time.perf_counter() - began)
    return least


def alone(*arguments: object) -> dict:
    """What this script measures in a process of its own."""
    command = [sys.executable, __file__, "--only", *map(str, arguments)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ended.stdout.splitlines()[-1])


def measure() -> dict:
    growth = {str(agents): alone("growing", agents) for agents in RINGS}
    with ThreadPoolExecutor() as both:  # memory does not mind
        found = both.map(lambda case: alone("peaking", *case[:-1]), PEAKS.values())
        peaks = {
            name: one | {"limit": limit * 1e9, "batch": batch}
            for (name, (*_, batch, limit)), one in zip(PEAKS.items(), found, strict=True)
        }
    return {
        "machine": keeping.machine(),
        "growth": growth,
        "peaks": peaks,
        "overhead": alone("overheads"),
        "start-up": start_up(),
    }


def text(found: dict) -> str:
    """The figures as Markdown."""
    growth = {int(agents): one for agents, one in found["growth"].items()}
    base = growth[RINGS[0]]["peak"]
    lines = [f"On {found['machine']}, in seconds of the CPU; made by `python benchmarks/growth.py` (one thread).", ""]
    lines += ["## CGA with the MLP 64-32-10 on a ring, batches of 8", ""]
    lines += ["| agents | ms per step and agent | KB per agent | ms per evaluation and agent |", "|---|---|---|---|"]
    for agents, one in growth.items():
        more = "" if agents == RINGS[0] else f"{(one['peak'] - base) / (agents - RINGS[0]) / 1e3:.0f}"
        step, evaluation = 1e3 * one["step"] / agents, 1e3 * one["evaluation"] / agents
        lines.append(f"| {agents:,} | {step:.3f} | {more} | {evaluation:.3f} |")
    lines += ["", "## Peak memory of one step of CGA", ""]
    lines += ["| | batch | measured GB | predicted GB | target GB |", "|---|---|---|---|---|"]
    for name, one in found["peaks"].items():
        sizes = (f"{one[key] / 1e9:.2f}" for key in ("peak", "predicted", "limit"))
        lines.append(f"| {name} | {one['batch']} | {' | '.join(sizes)} |")
    lines += ["", "## A step whose gradients cost nothing, in units of one Pi @ X by scipy.sparse", ""]
    lines += [
        "| algorithm | graph | agents | parameters | step | Pi @ X dense, by PyTorch |",
        "|---|---|---|---|---|---|",
    ]
    for one in found["overhead"]:
        case = f"| {one['algorithm']} | {one['graph']} | {one['agents']:,} | {one['parameters']:,} "
        lines.append(f"{case}| {one['ratio']:.2f} | {one['dense'] / one['sparse']:.2f} |")
    lines += ["", "## Start-up", "", "| | s |", "|---|---|"]
    lines += [f"| `{name}` | {seconds:.2f} |" for name, seconds in found["start-up"].items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="one measurement, in this process")
    only = parser.parse_args().only
    if not only:
        found = measure()
        keeping.keep("growth", found, text(found))
        return
    import torch

    torch.set_num_threads(1)
    what, *arguments = only
    if what == "growing":
        print(json.dumps(growing(int(arguments[0]))))
    elif what == "peaking":
        model, graph, agents, shape, batch = arguments
        sizes = tuple(int(part) for part in shape.split("x"))
        print(json.dumps(peaking(model, graph, int(agents), sizes, int(batch))))
    else:
        print(json.dumps(overheads()))


if __name__ == "__main__":
    main()
