"""How near a step of CGA comes to the gradients it needs, as ratios measured in one run. `make bench` runs it.

t1 is one bare forward and backward pass of the same model and batch in plain PyTorch, as it comes: another process that
is not tuned, ReLU before pooling, channels first. It takes turns with the steps, on as many threads.

1. a step over E t1, and over E of the best bare passes with the step's memory, in either layout: the paper's CNN and
   VGG11, on one thread and on two;
2. tiny models: a step with gradients one by one over a step with all in one pass, and compiled;
3. the shares of a step, and an evaluation beside it.
"""

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import keeping
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from crossgrad import graphs, models, network, oracle, train
from crossgrad.algorithms import CGA, aggregation, cga, comp_cga
from crossgrad.cli.tuning import tune
from crossgrad.data import Samples
from crossgrad.layout import channels_last
from crossgrad.settings import Gradients, Settings
from crossgrad.train import Training

MODELS = {"cnn": models.PaperCNN(), "vgg11": models.VGG11(), "mlp": models.MLP((32,)), "small": models.ReleasedCNN()}
GRAPHS = {"ring": graphs.ring, "bipartite": graphs.bipartite, "full": graphs.fully_connected}
PARTS = ("gradients", "data", "QP and Gram", "codec", "mixing", "rest")
PASSES = 2  # bare ones before a step, and as many after it
clock = time.perf_counter


class Case(NamedTuple):
    """A model on a graph."""

    model: str
    shape: tuple[int, int, int]
    batch: int
    graph: str
    agents: int
    threads: int = 1

    @property
    def name(self) -> str:
        return f"{self.model} {self.shape[1]}x{self.shape[2]}, batch {self.batch}, {self.graph} of {self.agents}"

    @property
    def gradients(self) -> int:
        """E: one for each number of Pi that is not zero."""
        return GRAPHS[self.graph](self.agents).weights.nnz

    def training(self, gradients: Gradients = Gradients.AUTO, algorithm=None) -> Training:
        """Random images: what they show does not matter for the time a step takes."""
        chance = torch.Generator().manual_seed(0)
        own = [
            Samples(torch.randn(2 * self.batch, *self.shape, generator=chance), torch.arange(2 * self.batch) % 10, 10)
            for _ in range(self.agents)
        ]
        settings = Settings(batch_size=self.batch, steps=10_000, gradients=gradients)
        module = models.build(MODELS[self.model], self.shape, 10, seed=0)
        return Training(module, own, algorithm or CGA(0.9), GRAPHS[self.graph](self.agents), settings, own[0])


def cases() -> list[Case]:
    """Batches of 128; of 32 for VGG11, and of 16 with ten agents, so that all takes a few minutes."""
    found = []
    for threads in (1, 2):
        for agents in (5, 10):
            for graph in GRAPHS:
                found += [Case("cnn", shape, 128, graph, agents, threads) for shape in ((1, 28, 28), (3, 32, 32))]
                found.append(Case("vgg11", (3, 32, 32), 32 if agents == 5 else 16, graph, agents, threads))
    return found


def textbook(module: nn.Module) -> nn.Module:
    """The same layers with every ReLU before the pooling."""
    layers = list(module.children())
    for place in range(len(layers) - 1):
        if isinstance(layers[place], nn.MaxPool2d) and isinstance(layers[place + 1], nn.ReLU):
            layers[place : place + 2] = layers[place + 1], layers[place]
    return nn.Sequential(*layers)


def bare(module: nn.Module, images: torch.Tensor) -> float:
    """Seconds of one pass."""
    labels = torch.arange(len(images)) % 10
    began = clock()
    module.zero_grad()
    cross_entropy(module(images), labels).backward()
    return clock() - began


def serve() -> None:
    """Measure t1 for whoever asks on standard input."""
    known = {}
    for line in sys.stdin:
        model, shape, batch, threads = json.loads(line)
        torch.set_num_threads(threads)
        if (model, *shape, batch) not in known:
            known.clear()
            known[model, *shape, batch] = textbook(MODELS[model].build(shape, 10)), torch.randn(batch, *shape)
            bare(*known[model, *shape, batch])
        print(json.dumps([bare(*known[model, *shape, batch]) for _ in range(PASSES)]), flush=True)


class Plain:
    """The other process."""

    def __init__(self, busy: bool) -> None:
        command = [sys.executable, __file__, "--serve", *(["--busy"] if busy else [])]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def passes(self, case: Case) -> list[float]:
        self.process.stdin.write(json.dumps([case.model, case.shape, case.batch, case.threads]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Shares:
    """Seconds spent in each part of the steps; what is called within another part counts for itself only."""

    def __init__(self) -> None:
        self.seconds, self.inner = dict.fromkeys(PARTS, 0.0), [0.0]
        for part, owner, name in (
            ("gradients", oracle.Oracle, "_backward"),
            ("gradients", oracle.Oracle, "_batched"),
            ("data", oracle.Oracle, "_draw"),
            ("QP and Gram", aggregation.Projection, "__call__"),
            ("codec", cga, "send"),
            ("codec", network, "send"),
            ("mixing", network.LocalNetwork, "average_"),
            ("rest", train.Training, "step"),
        ):
            setattr(owner, name, self._timed(part, getattr(owner, name)))

    def _timed(self, part: str, function: Callable) -> Callable:
        def timed(*arguments, **named):
            began = clock()
            self.inner.append(0.0)
            try:
                return function(*arguments, **named)
            finally:
                took = clock() - began
                self.seconds[part] += took - self.inner.pop()
                self.inner[-1] += took

        return timed

    def take(self) -> dict[str, float]:
        """The shares since they were last taken."""
        total = sum(self.seconds.values()) or 1.0
        shares = {part: seconds / total for part, seconds in self.seconds.items()}
        self.seconds = dict.fromkeys(PARTS, 0.0)
        return shares


def step(training: Training) -> float:
    began = clock()
    training.step()
    return clock() - began


def large(case: Case, plain: Plain, shares: Shares, algorithm=None) -> dict:
    """A step against E bare passes before and after it."""
    torch.set_num_threads(case.threads)
    training = case.training(algorithm=algorithm)
    training.oracle(training.state.x)  # warm
    images = torch.randn(case.batch, *case.shape)
    first = models.build(MODELS[case.model], case.shape, 10, seed=0), images
    last = first[0].to(memory_format=torch.channels_last), channels_last(images)
    passes = {"channels first": (copy.deepcopy(first[0]).to(memory_format=torch.contiguous_format), images)}
    passes["channels last"] = last
    for both in passes.values():
        bare(*both)
    plain.passes(case)
    shares.take()

    def around() -> None:
        t1.extend(plain.passes(case))
        for layout, both in passes.items():
            bares[layout] += [bare(*both) for _ in range(PASSES)]

    t1: list[float] = []
    bares: dict[str, list[float]] = {layout: [] for layout in passes}
    around()
    seconds = step(training)
    around()
    E, usual = case.gradients, statistics.median(t1)
    layouts = {layout: statistics.median(values) for layout, values in bares.items()}
    best = min(layouts.values())
    row = {"case": case.name, "threads": case.threads, "E": E, "t1": usual, "bare": layouts, "step": seconds}
    row |= {"step / (E t1)": seconds / E / usual, "step / (E bare)": seconds / E / best, "shares": shares.take()}
    began = clock()
    training.evaluate()
    return row | {"evaluation / step": (clock() - began) / seconds}


def tiny(case: Case, ways: list[Gradients], plain: Plain, shares: Shares, algorithm=None) -> dict:
    """Steps with gradients in one pass against steps with gradients one by one, in turn."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    runs = {way: case.training(way, algorithm) for way in ways}
    for run in runs.values():
        step(run)
    started = time.perf_counter() - began
    times, found = {way: [] for way in runs}, {}
    t1 = []
    for _ in range(5):
        t1 += plain.passes(case)
        for way, run in runs.items():
            shares.take()
            times[way] += [step(run) for _ in range(1 if way is Gradients.LOOP else 5)]
            found[way.value] = shares.take()
    median = {way.value: statistics.median(values) for way, values in times.items()}
    ratios = {f"loop / {way}": median["loop"] / value for way, value in median.items() if way != "loop"}
    ratios |= {f"E t1 / {way}": case.gradients * statistics.median(t1) / value for way, value in median.items()}
    return {"case": case.name, "E": case.gradients, "start": started, "steps": median, **ratios, "shares": found}


def main() -> None:
    global clock
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", action="store_true", help="count CPU seconds, as others use the machine; one thread")
    parser.add_argument("--no-compile", action="store_true", help="leave the compiled pass out")
    parser.add_argument("--few", action="store_true", help="of the large cases only rings of five agents")
    parser.add_argument("--only", default="", help="of the large cases those whose name has this; nothing is kept")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    clock = time.process_time if arguments.busy else time.perf_counter
    if arguments.serve:
        serve()
        return
    print(tune())
    plain, shares = Plain(arguments.busy), Shares()
    ways = [Gradients.LOOP, Gradients.BATCHED, *([] if arguments.no_compile else [Gradients.COMPILED])]
    mlp = Case("mlp", (1, 8, 8), 16, "full", 40)
    small = [
        tiny(mlp, ways, plain, shares),
        tiny(mlp._replace(graph="ring"), ways[:2], plain, shares),
        tiny(mlp._replace(agents=10), ways[:2], plain, shares, comp_cga(0.9)),
        tiny(Case("small", (1, 8, 8), 16, "full", 5), ways[:2], plain, shares),
    ]
    for row in small:
        print(json.dumps(row), flush=True)
    big = []
    for case in cases():
        wanted = arguments.only in case.name and (case.name.endswith("ring of 5") or not arguments.few)
        if wanted and not (arguments.busy and case.threads > 1):
            big.append(large(case, plain, shares))
            print(json.dumps(big[-1]), flush=True)
    compressed = large(Case("cnn", (3, 32, 32), 128, "ring", 5), plain, shares, comp_cga(0.9))
    plain.end()
    if not arguments.only:
        seconds = "of the CPU" if arguments.busy else "of the clock"
        found = {"machine": keeping.machine(), "seconds": seconds, "large": big, "tiny": small}
        found["compressed"] = compressed
        keeping.keep("gradients", found, text(found))


def text(found: dict) -> str:
    """The figures as Markdown."""
    big, small = found["large"], found["tiny"]
    lines = f"On {found['machine']}, in seconds {found['seconds']}; made by `python benchmarks/gradients.py`.\n\n"
    head = ["a step of CGA", "threads", "E", "t1, ms", "step / (E t1)", "step / (E bare)", "evaluation / step"]
    lines += keeping.table(
        head,
        [
            [row["case"], row["threads"], row["E"], f"{1e3 * row['t1']:.0f}", *(f"{row[key]:.2f}" for key in head[4:])]
            for row in big
        ],
    )
    lines += "\n" + keeping.table(
        ["tiny models", "strategy", "step, ms", "against loop", "E t1 / step"],
        [
            [row["case"], way, f"{1e3 * s:.1f}", f"{row['steps']['loop'] / s:.1f} x", f"{row[f'E t1 / {way}']:.1f}"]
            for row in small
            for way, s in row["steps"].items()
        ],
    )
    shares = [(f"{row['case']}, {row['threads']} threads", row["shares"]) for row in big]
    shares += [(f"CompCGA, {found['compressed']['case']}", found["compressed"]["shares"])]
    shares += [(f"{row['case']}, {way}", share) for row in small for way, share in row["shares"].items()]
    rows = [[name, *(f"{100 * share[part]:.1f}" for part in PARTS)] for name, share in shares]
    return lines + "\n" + keeping.table(["shares of a step, %", *PARTS], rows)


if __name__ == "__main__":
    main()
