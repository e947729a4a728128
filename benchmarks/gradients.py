"""How near a step of CGA comes to the gradients it needs, as ratios measured in one run. `make bench` runs it.

t1 is one bare forward and backward pass of the same model and batch in plain PyTorch, as it comes: another process that
is not tuned, ReLU before pooling, channels first. It is taken between the gradients of the step, on as many threads, so
that both see the same machine; the step does not count that time.

1. a step over E t1, and over E bare passes with the step's memory in the better layout: the paper's CNN and VGG11, on
   one thread and on two;
2. tiny models: a step with gradients one by one over a step with all in one pass, and compiled;
3. the shares of a step, and an evaluation beside it.
"""

import argparse
import copy
import json
import statistics
import time
from functools import cache
from itertools import product
from typing import NamedTuple

import keeping
import torch
from bare import MODELS, Plain, bare
from shares import PARTS, Shares
from torch import nn

from crossgrad import graphs, models
from crossgrad._cli.freed_memory import keep_freed_memory
from crossgrad._gradients.strategy import Gradients
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import CGA, comp_cga
from crossgrad.data import Samples
from crossgrad.models.channels_last import channels_last

GRAPHS = {"ring": graphs.ring, "bipartite": graphs.bipartite, "full": graphs.fully_connected}
VISITS = 8  # to the bare passes during a step with large batches; half as many with small ones


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
            Samples(torch.randn(2 * self.batch, *self.shape, generator=chance), torch.arange(2 * self.batch) % 10)
            for _ in range(self.agents)
        ]
        settings = TrainingSettings(batch_size=self.batch, steps=10_000, gradients=gradients)
        module = models.build(MODELS[self.model], self.shape, 10, seed=0)
        return Training(module, own, algorithm or CGA(0.9), GRAPHS[self.graph](self.agents), settings, own[0])


def cases() -> list[Case]:
    """Batches of 128, as in the paper, where a step has few gradients; smaller ones so that all takes a few minutes.

    VGG11's passes take six times as long: batches of 64 on the ring of five, of 8 elsewhere.
    """
    found = []
    for threads, agents, graph in product((1, 2), (5, 10), GRAPHS):
        E = GRAPHS[graph](agents).weights.nnz
        found += [
            Case("cnn", shape, 128 if E <= 17 else 32, graph, agents, threads) for shape in ((1, 28, 28), (3, 32, 32))
        ]
        found.append(Case("vgg11", (3, 32, 32), 64 if E == 15 else 8, graph, agents, threads))
    return found


@cache
def better_layout(model: str, shape: tuple[int, ...], batch: int) -> tuple[nn.Module, torch.Tensor]:
    """A module and its images as they lie in memory when a pass is faster."""
    images, module = torch.randn(batch, *shape), models.build(MODELS[model], shape, 10, seed=0)
    first = copy.deepcopy(module).to(memory_format=torch.contiguous_format)
    last = module.to(memory_format=torch.channels_last), channels_last(images)
    return min(((first, images), last), key=lambda both: (bare(*both), bare(*both))[1])  # the first pass warms


class Beside:
    """Bare passes between the gradients of a step: t1, and passes with the step's memory in the better layout."""

    def __init__(self, case: Case, plain: Plain) -> None:
        self.asked, self.plain = (case.model, case.shape, case.batch, case.threads), plain
        visits = VISITS if case.batch > 32 else VISITS // 2
        self.when, self.calls = {round(visit * case.gradients / visits) for visit in range(visits)}, 0
        self.best = better_layout(case.model, case.shape, case.batch)
        self.t1s: list[float] = []
        self.bares: list[float] = []

    def __call__(self) -> None:
        if self.calls in self.when:
            self.t1s.append(self.plain.t1(*self.asked))
            self.bares.append(bare(*self.best))
        self.calls += 1


def large(case: Case, plain: Plain, shares: Shares, algorithm=None) -> dict:
    """A step against E bare passes."""
    torch.set_num_threads(case.threads)
    training = case.training(algorithm=algorithm)
    training.oracle(training.state.x, torch.arange(case.agents) == 0)  # warm
    beside = Beside(case, plain)
    shares.take()
    shares.visitor = beside
    seconds = shares.step(training)
    shares.visitor = None
    E, t1, best = case.gradients, statistics.mean(beside.t1s), statistics.mean(beside.bares)  # as a step is a sum
    row = {"case": case.name, "threads": case.threads, "E": E, "t1": t1, "bare": best, "step": seconds}
    row |= {"step / (E t1)": seconds / E / t1, "step / (E bare)": seconds / E / best, "shares": shares.take()}
    if (case.graph, case.agents) == ("ring", 5):
        began = time.perf_counter()
        training.evaluate()
        row["evaluation / step"] = (time.perf_counter() - began) / seconds
    return row


def tiny(case: Case, ways: list[Gradients], plain: Plain, shares: Shares, algorithm=None) -> dict:
    """Steps with gradients in one pass against steps with gradients one by one, in turn."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    runs = {way: case.training(way, algorithm) for way in ways}
    for run in runs.values():
        shares.step(run)
    started = time.perf_counter() - began
    times, found = {way: [] for way in runs}, {}
    t1 = []
    for _ in range(5):
        t1 += [plain.t1(case.model, case.shape, case.batch, 1) for _ in range(10)]
        for way, run in runs.items():
            shares.take()
            times[way] += [shares.step(run) for _ in range(1 if way is Gradients.LOOP else 5)]
            found[way.value] = shares.take()
    median = {way.value: statistics.median(values) for way, values in times.items()}
    ratios = {f"loop / {way}": median["loop"] / value for way, value in median.items() if way != "loop"}
    ratios |= {f"E t1 / {way}": case.gradients * statistics.median(t1) / value for way, value in median.items()}
    return {"case": case.name, "E": case.gradients, "start": started, "steps": median, **ratios, "shares": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-compile", action="store_true", help="leave the compiled pass out")
    parser.add_argument("--only", default="", help="of the large cases those whose name has this; nothing is kept")
    arguments = parser.parse_args()
    print(keep_freed_memory())
    plain, shares = Plain(), Shares()
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
        if arguments.only in case.name:
            big.append(large(case, plain, shares))
            print(json.dumps(big[-1]), flush=True)
    compressed = large(Case("cnn", (3, 32, 32), 128, "ring", 5), plain, shares, comp_cga(0.9))
    plain.end()
    if not arguments.only:
        found = {"machine": keeping.machine(), "large": big, "tiny": small, "compressed": compressed}
        keeping.keep("gradients", found, text(found))


def text(found: dict) -> str:
    """The figures as Markdown."""
    big, small = found["large"], found["tiny"]
    lines = f"On {found['machine']}; made by `python benchmarks/gradients.py`.\n\n"
    head = ["a step of CGA", "threads", "E", "t1, ms", "step / (E t1)", "step / (E bare)", "evaluation / step"]
    lines += keeping.table(
        head,
        [
            [row["case"], row["threads"], row["E"], f"{1e3 * row['t1']:.0f}", *(_short(row, key) for key in head[4:])]
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


def _short(row: dict, key: str) -> str:
    return f"{row[key]:.2f}" if key in row else ""


if __name__ == "__main__":
    main()
