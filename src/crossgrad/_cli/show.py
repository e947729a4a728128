"""`crossgrad list`, `graph` and `partition`: what there is, and what it looks like."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from crossgrad._cli.console import say
from crossgrad.data import DATASETS, draw_partition, load
from crossgrad.experiments.config import ConfigError, choose, nearest
from crossgrad.experiments.experiment import CHOICES, apply_change
from crossgrad.graphs import AnyGraph
from crossgrad.tasks import infer_task

LARGEST_SHOWN = 12  # agents whose weights fit on a screen


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


def show_graph(name: str, options: list[str], agents: int, seed: int) -> None:
    """Print a graph's weights, spectrum and cost, and what to beware of."""
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
    console.print(facts)
    for warning in _warnings(graph):
        say(console, f"Beware: {warning}")


def show_partition(
    name: str, options: list[str], agents: int, seed: int, data: str, root: Path | None, picture: Path | None
) -> None:
    """Print who holds how much of which class; draw it if a file is named."""
    rule = _chosen("partition", name, options)
    if picture is not None and picture.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise ConfigError(f"a picture is a .png, .svg or .pdf file; found {picture}.")
    if picture is not None and picture.exists():
        raise ConfigError(f"{picture} exists already and is not overwritten; name another file.")
    train = load(data, root).train
    task = infer_task([train.labels])
    kinds = task.kinds(train.labels)
    divided = rule(kinds, agents, seed, task.classes)
    print(divided.table(kinds, task.classes))
    if picture is not None:
        draw_partition(divided.counts(kinds, task.classes), picture)
        print(f"Drawn in {picture}")


def _chosen(kind: str, name: str, options: list[str]) -> Any:
    table: dict[str, Any] = {"name": name}
    for option in options:
        apply_change(table, option)
    return choose(CHOICES[kind], table, kind, {})


def _first_line(entry: Callable[..., Any] | Any) -> str:
    text = getattr(entry, "description", None) or inspect.getdoc(entry) or ""
    return str(text).splitlines()[0]


def _kind(graph: AnyGraph) -> str:
    direction = "undirected" if graph.undirected else "directed"
    change = "" if graph.period == 1 else ", changes from step to step"
    sums = "doubly" if graph.doubly_stochastic else "column-" if graph.column_stochastic else "row-"
    return f"{direction}{change}, {sums}{' ' if sums == 'doubly' else ''}stochastic"


def _warnings(graph: AnyGraph) -> list[str]:
    warnings = []
    if not graph.undirected:
        warnings.append(
            "it is directed, so algorithms whose neighbours answer one another (CGA, swarm, EDM) do not fit."
        )
    if graph.agents > 1 and graph.spectral_gap < 0.05:
        steps = int(np.ceil(1 / max(graph.spectral_gap, 1e-12)))
        warnings.append(f"it mixes slowly: differences between agents take about {steps} steps to fade by e.")
    if not graph.column_stochastic:
        warnings.append(
            "its columns do not sum to 1, so averaging drifts, and no algorithm takes it. Let every sender split its "
            "weight over its receivers, or make it undirected."
        )
    elif not graph.doubly_stochastic:
        warnings.append("its rows do not sum to 1: plain averaging drifts. Use SGP.")
    return warnings
