"""`crossgrad graph`: a graph's weights, spectrum and messages per step."""

import math
from typing import TYPE_CHECKING, Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Agents, Options, Picture, Plugins, Seed, check_picture, chosen

if TYPE_CHECKING:
    from crossgrad.graphs import AnyGraph

MAX_AGENTS_SHOWN = 12  # whose weights fit on a screen
MAX_AGENTS_MULTIPLIED = 500  # for which the products of the steps' weights are computed
MAX_STEPS_MULTIPLIED = 50  # of a graph that never repeats
EXACT_BELOW = 1e-12  # largest deviation from 1/N of a product that counts as exact averaging
TYPICAL_NUMBERS = 100_000  # of a model, for the error of a codec
SLOW_GAP = 0.05  # spectral gap below which a graph counts as slow


@app.command(
    epilog=examples(
        "crossgrad graph ring --agents 10",
        "crossgrad graph erdos-renyi --agents 40 probability=0.2 --seed 3",
        "crossgrad graph edge-list path=hospitals.txt --agents 7",
        "crossgrad graph base-graph neighbours=2 --picture base.png",
    )
)
def graph(
    name: Annotated[str, typer.Argument(help="A graph of `crossgrad list graphs`.")],
    options: Options = None,
    agents: Agents = 10,
    seed: Seed = 0,
    picture: Picture = None,
    plugin: Plugins = None,
) -> None:
    """Show a graph's weights, spectrum, messages per step, when the mean is exact, and unsuitable algorithms."""
    from rich.console import Console
    from rich.table import Table

    from crossgrad._cli.console import say

    check_picture(picture)
    built = chosen("graph", name, options).build(agents, seed)
    console = Console(highlight=False, markup=False)
    first = built.at(0)
    if agents <= MAX_AGENTS_SHOWN:
        step = "" if built.period == 1 else " of the first step"
        console.print(f"Weights{step} (row j: the weights of agent j's neighbours in its average)")
        console.print("\n".join(" ".join(f"{w:.3f}" if w else "  .  " for w in row) for row in first.dense()))
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_row("agents", str(built.agents))
    facts.add_row("kind", _kind_of_graph(built))
    facts.add_row("messages per step", f"{built.messages:g}")
    facts.add_row("neighbours", f"{first.degrees.min()} to {first.degrees.max()}")
    facts.add_row("sqrt(rho)", f"{built.mixing_rate:.4f}")
    facts.add_row("spectral gap", f"{built.spectral_gap:.4g}")
    facts.add_row("exact mean", _exact_after(built))
    if rounds := _rounds(built):
        facts.add_row("rounds of 4 bits", rounds)
    if along := _tree_cost(built):
        facts.add_row("along a tree", along)
    console.print(facts)
    for reason, names in _unfit(built).items():
        which = "which" if len(names) == 1 else "each of which"
        say(console, f"It does not fit {', '.join(names)}, {which}{reason}")
    for warning in _warnings(built):
        say(console, f"Warning: {warning}")
    if picture is not None:
        from crossgrad.graphs.picture import draw_graph

        draw_graph(built, picture)
        print(f"Drawn in {picture}")


def _kind_of_graph(graph: "AnyGraph") -> str:
    direction = "undirected" if graph.undirected else "directed"
    change = "" if graph.period == 1 else ", changes from step to step"
    sums = "doubly " if graph.doubly_stochastic else "column-" if graph.column_stochastic else "row-"
    return f"{direction}{change}, {sums}stochastic"


def _exact_after(graph: "AnyGraph") -> str:
    """After how many steps of averaging alone all agents have the exact mean."""
    import numpy as np

    if graph.agents > MAX_AGENTS_MULTIPLIED or not graph.doubly_stochastic:
        return "not computed"
    product = np.eye(graph.agents)
    for step in range(graph.period or MAX_STEPS_MULTIPLIED):
        product = np.asarray(graph.at(step).weights @ product)
        if np.abs(product - 1 / graph.agents).max() < EXACT_BELOW:
            return "after 1 step" if step == 0 else f"after {step + 1} steps"
    return "never, only in the limit of many steps"


def _rounds(graph: "AnyGraph") -> str:
    """How many accelerated rounds of 4-bit differences EDM needs here; empty where it cannot have any."""
    from crossgrad.algorithms.gossip_choice import enough_rounds
    from crossgrad.codecs import Quantised

    fits = graph.undirected and graph.doubly_stochastic and graph.period == 1
    if not fits or not 1 < graph.agents <= MAX_AGENTS_MULTIPLIED or graph.spectral_gap <= 0:
        return ""
    error = Quantised(4).relative_error(TYPICAL_NUMBERS)
    try:
        choice = enough_rounds(graph.at(0).dense(), error)
    except ValueError:
        return ""
    plural = "s" if choice.rounds > 1 else ""
    return (
        f"{choice.rounds} round{plural}, gamma {choice.gamma:g}, lazy {choice.lazy:g}: {choice.left:.0%} of the "
        "disagreement is left after a step"
    )


def _tree_cost(graph: "AnyGraph") -> str:
    """What the exact mean costs along a spanning tree; empty where there is none in every step."""
    from crossgrad.graphs import tree_rounds

    if not graph.undirected or not 1 < graph.agents <= MAX_AGENTS_MULTIPLIED or graph.period != 1:
        return ""
    rounds = tree_rounds(graph.at(0))
    messages = sum(each.messages for each in rounds)
    return (
        f"the exact mean in {len(rounds)} rounds, which together send {messages / graph.messages:.2g} times as many "
        "messages as one round of gossip"
    )


def _unfit(graph: "AnyGraph") -> dict[str, list[str]]:
    """The algorithms that refuse this graph with their default options, by the reason and remedy that they give."""
    from crossgrad._training.validate import algorithm_name, check_graph
    from crossgrad.algorithms import ALGORITHMS

    names: dict[str, list[str]] = {}
    for name, make in ALGORITHMS.items():
        algorithm = make()
        try:
            check_graph(algorithm, graph, graph.agents)
        except ValueError as error:
            names.setdefault(str(error).removeprefix(algorithm_name(algorithm)), []).append(name)
    return names


def _warnings(graph: "AnyGraph") -> list[str]:
    warnings = []
    if graph.agents > 1 and graph.spectral_gap < SLOW_GAP:
        steps = math.ceil(1 / max(graph.spectral_gap, 1e-12))
        warnings.append(f"it mixes slowly: differences between agents shrink by a factor e in about {steps} steps.")
    if graph.undirected and graph.period == 1 and graph.at(0).lowest_eigenvalue < -1 / 3 - 1e-9:
        warnings.append(
            f"its lowest eigenvalue is {graph.at(0).lowest_eigenvalue:.3f}, at which methods that correct by their "
            "last step (D2, LED, GUT) do not converge. Give them a share of the identity: lazy = 0.5."
        )
    if not graph.column_stochastic:
        warnings.append(
            "its columns do not sum to 1, so averaging changes the mean, and no algorithm accepts it. Let every sender "
            "split its weight over its receivers, or make the graph undirected."
        )
    return warnings
