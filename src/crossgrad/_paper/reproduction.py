"""The paper's experiments as grids: its tables at the paper's scale, with images of half the side, or on digits."""

from dataclasses import dataclass, replace
from typing import Any

from crossgrad._paper.beside import Row
from crossgrad._paper.tables import PAPER_AGENTS, PAPER_GRAPHS, PAPER_TABLES, PaperTable
from crossgrad._paper.verdict import SETTLED
from crossgrad._sweep.grid import Grid, cells_of
from crossgrad.experiments.comparison import DECAY, LR, MOMENTUM
from crossgrad.experiments.config import nearest

PAPER_EPOCHS = 150.0  # the paper does not say how many; the figures of its released code have 150 to 190
DIGITS_STEPS = 300

PAPER_PARTITIONS = {"IID": {"name": "iid"}, "non-IID": {"name": "class"}}

# Each method as the paper describes it, and variants of it that are needed to read its tables.
METHOD_VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "DPSGD": {"paper": {"name": "dpsgd"}},
    "DPMSGD": {"paper": {"name": "dpmsgd", "momentum": MOMENTUM}},
    "SGP": {"paper": {"name": "sgp"}, "momentum": {"name": "sgp", "momentum": MOMENTUM}},
    "SwarmSGD": {"paper": {"name": "swarm"}, "matching": {"name": "swarm", "matching": True}},
    "CGA": {
        "paper": {"name": "cga", "momentum": MOMENTUM},
        "released": {"name": "cga-released", "momentum": MOMENTUM},
        "mean": {"name": "cga-mean", "momentum": MOMENTUM},
    },
    "CompCGA": {
        "paper": {"name": "compcga", "momentum": MOMENTUM},
        "released": {"name": "compcga-released", "momentum": MOMENTUM},
    },
    "EDM": {"paper": {"name": "edm", "momentum": MOMENTUM}},  # a newer method, as its own paper has it
}
NEWER_STEP_SIZES = {"EDM": LR / (1 - MOMENTUM)}  # its velocity is a mean: steps as long as a heavy ball's with LR
SCALES = ("paper", "half", "digits")  # half: images averaged to half their side, a quarter of the cost
ALWAYS = ("sgp:momentum", "cga:released")  # beside the methods of a table, unless others are named


@dataclass(frozen=True)
class Choice:
    """Which cells of a table to run, and how large."""

    table: str  # such as cifar10-cnn-noniid, or cifar10-cnn for both of its splits
    agents: tuple[int, ...] = PAPER_AGENTS
    graphs: tuple[str, ...] = PAPER_GRAPHS
    algorithms: tuple[str, ...] = ()  # such as cga or cga:released; none: those of the table
    scale: str = "paper"  # one of SCALES
    epochs: float | None = None  # of the local data
    seeds: int = 1
    evaluations: int = 20  # of each run
    until_settled: bool = False  # end a run once it has settled, as the verdict on it has it
    autocast: bool = False  # compute passes in bfloat16

    @property
    def tables(self) -> tuple[PaperTable, ...]:
        """The table of this name, or the two of this data set and model."""
        found = tuple(
            t for name, t in PAPER_TABLES.items() if name in (self.table, f"{self.table}-iid", f"{self.table}-noniid")
        )
        if not found:
            raise ValueError(
                f"the paper has no table {self.table!r}. {nearest(self.table, [*families(), *PAPER_TABLES])}"
            )
        return found

    @property
    def name(self) -> str:
        """The name of the folder; runs of another length have another one."""
        length = "" if self.epochs is None else f"-{self.epochs:g}-epochs"
        ends = "-settled" if self.until_settled else ""
        passes = "-autocast" if self.autocast else ""
        return f"{self.table}{'' if self.scale == 'paper' else f'-{self.scale}'}{length}{ends}{passes}"

    def command(self, row: Row | None = None) -> str:
        """How to run this again, or just the cells of one row."""
        agents, graphs, algorithms = self.agents, self.graphs, self.algorithms
        if row is not None:
            agents, graphs, algorithms = (
                (row.agents,),
                (row.graph,),
                (f"{row.method.lower()}:{row.variant or 'paper'}",),
            )
        words = [f"crossgrad reproduce {self.table}"]
        words += [f"--agents {n}" for n in agents if agents != PAPER_AGENTS]
        words += [f"--graph {graph}" for graph in graphs if graphs != PAPER_GRAPHS]
        words += [f"--algorithm {algorithm}" for algorithm in algorithms]
        words += [f"--scale {self.scale}"] * (self.scale != "paper")
        words += [f"--epochs {self.epochs:g}"] if self.epochs is not None else []
        words += [f"--seeds {self.seeds}"] * (self.seeds > 1)
        words += [f"--evaluations {self.evaluations}"] * (self.evaluations != 20)
        words += ["--until-settled"] * self.until_settled + ["--autocast"] * self.autocast
        return " ".join(words)


def families() -> list[str]:
    """The names that stand for two tables, IID and non-IID."""
    return list(dict.fromkeys(name.rpartition("-")[0] for name in PAPER_TABLES))


def grid(choice: Choice) -> Grid:
    """The cells to run, cheap ones first."""
    splits, methods = [table.split for table in choice.tables], choice.tables[0].methods
    for given, valid, what in (
        (choice.graphs, PAPER_GRAPHS, "graph"),
        (choice.agents, PAPER_AGENTS, "number of agents"),
        ((choice.scale,), SCALES, "scale"),
    ):
        for value in given:
            if value not in valid:
                raise ValueError(f"the paper's tables have no {what} {value!r}. {nearest(str(value), valid)}")
    variants = [_variant(words) for words in choice.algorithms or (*methods, *ALWAYS)]
    axes: dict[str, Any] = {
        "agents": sorted(choice.agents),
        "graph": sorted(choice.graphs, key=lambda graph: graph == "fully-connected"),
        "split": {split: {"partition": PAPER_PARTITIONS[split]} for split in splits},
        "method": {f"{method}:{variant}": _method(method, variant) for method, variant in variants},
        "seed": list(range(choice.seeds)),
    }
    cells = [replace(cell, labels=_two_labels(cell.labels)) for cell in cells_of(_experiment_of(choice), axes, [])]
    return Grid(choice.name, tuple(cells))


def _method(method: str, variant: str) -> dict[str, Any]:
    """The settings of an experiment with this method besides those that all have in common."""
    step_size = {"schedule.lr": round(NEWER_STEP_SIZES[method], 6)} if method in NEWER_STEP_SIZES else {}
    return {"algorithm": METHOD_VARIANTS[method][variant], **step_size}


def _two_labels(labels: dict[str, str]) -> dict[str, str]:
    """The labels with method and variant separated."""
    method, _, variant = labels["method"].partition(":")
    return {
        axis: label
        for old, value in labels.items()
        for axis, label in ([("method", method), ("variant", variant)] if old == "method" else [(old, value)])
    }


def _experiment_of(choice: Choice) -> dict[str, Any]:
    schedule = {"name": "exponential", "lr": LR, "decay": DECAY}
    options: dict[str, Any] = {}
    if choice.until_settled:
        options |= {"settled_points": SETTLED.points, "settled_epochs": SETTLED.epochs}
    if choice.autocast:
        options["autocast"] = True
    if choice.scale == "digits":
        length: dict[str, Any] = {"epochs": choice.epochs} if choice.epochs else {"steps": DIGITS_STEPS}
        training = {"batch_size": 16, "threads": 1, "evaluations": choice.evaluations, **length, **options}
        return {"data": "digits", "model": {"name": "mlp", "hidden": [32]}, "schedule": schedule, "training": training}
    table = choice.tables[0]
    length = {"epochs": choice.epochs or PAPER_EPOCHS}
    training = {"batch_size": 128, "threads": 1, "evaluations": choice.evaluations, **length, **options}
    data = {"name": table.data, "shrink": 2} if choice.scale == "half" else table.data
    return {"data": data, "model": table.model, "schedule": schedule, "training": training}


def _variant(words: str) -> tuple[str, str]:
    """The method and variant that words such as cga, CGA or cga:released name."""
    word, _, variant = words.partition(":")
    by_name = {name.lower(): name for name in METHOD_VARIANTS}
    if word.lower() not in by_name:
        raise ValueError(f"there is no method {word!r}. {nearest(word.lower(), by_name)}")
    method = by_name[word.lower()]
    variant = variant or "paper"
    if variant not in METHOD_VARIANTS[method]:
        raise ValueError(f"{method} has no variant {variant!r}. {nearest(variant, METHOD_VARIANTS[method])}")
    return method, variant
