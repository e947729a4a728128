"""`crossgrad list`, `graph` and `partition`: what there is, and what it looks like."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from crossgrad._cli.console import say
from crossgrad._training.validate import check_graph
from crossgrad.algorithms import ALGORITHMS
from crossgrad.data import DATASETS, draw_partition, load
from crossgrad.experiments.config import ConfigError, choose, nearest
from crossgrad.experiments.experiment import CHOICES, WITHIN, apply_change
from crossgrad.graphs import AnyGraph
from crossgrad.graphs.picture import draw_graph
from crossgrad.tasks import infer_task

LARGEST_SHOWN = 12  # agents whose weights fit on a screen
LARGEST_MULTIPLIED = 500  # agents for which averages of averages are worked out
STEPS_MULTIPLIED = 50  # of a graph that never repeats
EXACT = 1e-12


def show_list(what: str | None) -> None:
    """Print every name that can be chosen, with one line."""
    groups: dict[str, Mapping[str, Any]] = {
        "algorithms": CHOICES["algorithm"],
        "graphs": CHOICES["graph"],
        "data": DATASETS,
        "models": CHOICES["model"],
        "partitions": CHOICES["partition"],
        "schedules": CHOICES["schedule"],
    }
    if what is not None and what not in groups:
        raise ConfigError(f"there is no list of {what!r}. {nearest(what, groups)}")
    console = Console()
    for group, entries in groups.items():
        if what in (None, group):
            table = Table(title=group, title_justify="left", box=None, show_header=False, pad_edge=False)
            table.add_column(style="bold", no_wrap=True)
            table.add_column()
            for name, entry in entries.items():
                table.add_row(name, _first_line(entry))
            console.print(table)
            console.print()


def show_graph(name: str, options: list[str], agents: int, seed: int, picture: Path | None = None) -> None:
    """Print a graph's weights, spectrum and cost, and what to beware of; draw it if a file is named."""
    _check_picture(picture)
    graph = _chosen("graph", name, options).build(agents, seed)
    console = Console(highlight=False, markup=False)
    first = graph.at(0)
    if agents <= LARGEST_SHOWN:
        console.print("Weights" + ("" if graph.period == 1 else " of the first step") + " (row j: senders to j)")
        console.print("\n".join(" ".join(f"{w:.3f}" if w else "  .  " for w in row) for row in first.dense()))
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_row("agents", str(graph.agents))
    facts.add_row("kind", _kind(graph))
    facts.add_row("messages per step", f"{graph.messages:g}")
    facts.add_row("neighbours", f"{first.degrees.min()} to {first.degrees.max()}")
    facts.add_row("sqrt(rho)", f"{graph.mixing_rate:.4f}")
    facts.add_row("spectral gap", f"{graph.spectral_gap:.4g}")
    facts.add_row("exact mean", _exact_after(graph))
    if unfit := _unfit(graph):
        facts.add_row("does not fit", ", ".join(unfit))
    console.print(facts)
    for warning in _warnings(graph):
        say(console, f"Beware: {warning}")
    if picture is not None:
        draw_graph(graph, picture)
        print(f"Drawn in {picture}")


def show_partition(
    name: str, options: list[str], agents: int, seed: int, data: str, root: Path | None, picture: Path | None
) -> None:
    """Print who holds how much of which class; draw it if a file is named."""
    rule = _chosen("partition", name, options)
    _check_picture(picture)
    train = load(data, root).train
    task = infer_task([train.labels])
    kinds = task.kinds(train.labels)
    divided = rule(kinds, agents, seed, task.classes)
    print(divided.table(kinds, task.classes))
    if picture is not None:
        draw_partition(divided.counts(kinds, task.classes), picture)
        print(f"Drawn in {picture}")


def _check_picture(picture: Path | None) -> None:
    if picture is not None and picture.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise ConfigError(f"a picture is a .png, .svg or .pdf file; found {picture}.")
    if picture is not None and picture.exists():
        raise ConfigError(f"{picture} exists already and is not overwritten; name another file.")


def _chosen(kind: str, name: str, options: list[str]) -> Any:
    table: dict[str, Any] = {"name": name}
    for option in options:
        apply_change(table, option)
    return choose(CHOICES[kind], table, kind, WITHIN)


def _first_line(entry: Callable[..., Any] | Any) -> str:
    text = getattr(entry, "description", None) or inspect.getdoc(entry) or ""
    return str(text).splitlines()[0]


def _kind(graph: AnyGraph) -> str:
    direction = "undirected" if graph.undirected else "directed"
    change = "" if graph.period == 1 else ", changes from step to step"
    sums = "doubly" if graph.doubly_stochastic else "column-" if graph.column_stochastic else "row-"
    return f"{direction}{change}, {sums}{' ' if sums == 'doubly' else ''}stochastic"


def _exact_after(graph: AnyGraph) -> str:
    """After how many steps of nothing but averaging everybody has the mean."""
    if graph.agents > LARGEST_MULTIPLIED or not graph.doubly_stochastic:
        return "not looked for"
    product = np.eye(graph.agents)
    for step in range(graph.period or STEPS_MULTIPLIED):
        product = np.asarray(graph.at(step).weights @ product)
        if np.abs(product - 1 / graph.agents).max() < EXACT:
            return "after 1 step" if step == 0 else f"after {step + 1} steps"
    return "never, only in the limit"


def _unfit(graph: AnyGraph) -> list[str]:
    """The algorithms that refuse this graph as they are without options."""
    names = []
    for name, make in ALGORITHMS.items():
        try:
            check_graph(make(), graph, graph.agents)
        except ValueError:
            names.append(name)
    return names


def _warnings(graph: AnyGraph) -> list[str]:
    warnings = []
    if not graph.undirected:
        warnings.append(
            "it is directed, so algorithms whose neighbours answer one another (CGA, swarm, EDM) do not fit."
        )
    if graph.agents > 1 and graph.spectral_gap < 0.05:
        steps = int(np.ceil(1 / max(graph.spectral_gap, 1e-12)))
        warnings.append(f"it mixes slowly: differences between agents take about {steps} steps to fade by e.")
    if graph.undirected and graph.period == 1 and graph.at(0).lowest_eigenvalue < -1 / 3 - 1e-9:
        warnings.append(
            f"its lowest eigenvalue is {graph.at(0).lowest_eigenvalue:.3f}, at which methods that correct by their "
            f"last step (D2, LED, GUT) do not settle. Give them a share of the identity: lazy = 0.5."
        )
    if not graph.column_stochastic:
        warnings.append(
            "its columns do not sum to 1, so averaging drifts, and no algorithm takes it. Let every sender split its "
            "weight over its receivers, or make it undirected."
        )
    elif not graph.doubly_stochastic:
        warnings.append("its rows do not sum to 1: plain averaging drifts. Use SGP.")
    return warnings
