"""The paper's figures from our runs, as PNG and SVG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossgrad._report import panels, selection, series, style
from crossgrad._report.seed_groups import GRAPH_ORDER, SPLIT_ORDER, SeedGroup, group_by_seed, ordered
from crossgrad._runs.results import RunResult

AVERAGED_LOSS_LABEL, OWN_LOSS_LABEL = "averaged model,\nall training data", "agents' own models,\nown batches"
LOSSES: dict[str, series.Measure] = {AVERAGED_LOSS_LABEL: series.loss, OWN_LOSS_LABEL: series.own_loss}
COSTS: dict[str, series.Axis] = {
    "communication rounds": series.rounds,
    "MB sent per agent": series.megabytes,
    "gradient evaluations per agent": series.gradients,
}


NO_PROJECTION = "no run reports its share of active constraints, as CGA does."
NO_TESTED_PROJECTION = "no run that reports its share of active constraints has a test set."


@dataclass(frozen=True)
class DrawnFigures:
    """The files that were written, and why other figures were skipped."""

    paths: list[Path]
    skipped: list[str]


@dataclass(frozen=True)
class FigurePlan:
    """A figure: its name, the runs it needs, why it may be skipped, and the function that draws it."""

    name: str
    choose: Callable[[list[SeedGroup]], list[SeedGroup]]
    lacking: str
    draw: Callable[[list[SeedGroup]], Any]


def draw_all(results: Sequence[RunResult], folder: Path) -> DrawnFigures:
    """Draw every figure that the results allow into a folder, each as PNG and SVG."""
    import matplotlib

    cells, drawn = group_by_seed(results), DrawnFigures([], [])
    folder.mkdir(parents=True, exist_ok=True)
    for plan in FIGURE_PLANS:
        chosen = plan.choose(cells)
        if not chosen:
            drawn.skipped.append(f"{plan.name}: {plan.lacking}")
            continue
        with matplotlib.rc_context(style.MATPLOTLIB_SETTINGS):
            figure = plan.draw(chosen)
        drawn.paths.extend(style.save(figure, folder, plan.name))
    return drawn


def loss_by_graph(cells: list[SeedGroup]) -> Any:
    """Training loss of one method by graph: a column for each split, a row for each of the two losses."""
    splits, graphs = _axis(cells, "split", SPLIT_ORDER), _axis(cells, "graph", GRAPH_ORDER)
    figure, grid = _grid(len(LOSSES), len(splits))
    styles = style.graph_styles(graphs)
    for column, split in enumerate(splits):
        groups = {c.key.graph: c.runs for c in cells if c.key.split == split}
        _loss_column([row[column] for row in grid], f"{split} data", groups, styles, first=column == 0)
    return _finished(figure, grid, f"{cells[0].key.name}, {_agents(cells)}: training loss by graph", log=True)


def loss_by_method(cells: list[SeedGroup]) -> Any:
    """Training loss of all methods: a column for each graph, a row for each of the two losses."""
    graphs = _axis(cells, "graph", GRAPH_ORDER)
    figure, grid = _grid(len(LOSSES), len(graphs))
    styles = style.method_styles(c.key for c in cells)
    for column, graph in enumerate(graphs):
        groups = {c.key.name: c.runs for c in cells if c.key.graph == graph}
        _loss_column([row[column] for row in grid], graph, groups, styles, first=column == 0)
    return _finished(figure, grid, f"Training loss on {cells[0].key.split} data, {_agents(cells)}", log=True)


def accuracy_by_graph(cells: list[SeedGroup]) -> Any:
    """Test accuracy by graph: a column for each number of agents, a row for each split."""
    agents = _axis(cells, "agents", ())
    return _accuracy_figure(cells, "graph", _axis(cells, "graph", GRAPH_ORDER), "agents", sorted(agents), "{} agents")


def accuracy_by_agents(cells: list[SeedGroup]) -> Any:
    """Test accuracy by number of agents: a column for each graph, a row for each split."""
    return _accuracy_figure(
        cells, "agents", sorted(_axis(cells, "agents", ())), "graph", _axis(cells, "graph", GRAPH_ORDER), "{}"
    )


def loss_by_cost(cells: list[SeedGroup]) -> Any:
    """The averaged model's training loss against rounds, bytes and gradient evaluations."""
    figure, grid = _grid(1, len(COSTS), height=3.6)
    styles = style.method_styles(c.key for c in cells)
    for axes, (label, cost) in zip(grid[0], COSTS.items(), strict=True):
        panels.draw_curves(axes, {c.key.name: c.runs for c in cells}, styles, cost, series.loss)
        panels.log_loss(axes)
        axes.set_xlabel(label)
        axes.set_xlim(left=0)
    grid[0][0].set_ylabel("loss of the averaged model")
    key = cells[0].key
    return _finished(
        figure, grid, f"What a lower loss costs: {key.split} data, {key.graph}, {_agents(cells)}", log=True
    )


def agents_and_average(cells: list[SeedGroup]) -> Any:
    """Each agent and the averaged model in one panel, for the first seed: a column for each split, a row per graph.

    The paper shows losses; an agent's loss on its own data says little where it holds one class, so these are
    accuracies on the whole test set.
    """
    splits, graphs = _axis(cells, "split", SPLIT_ORDER), _axis(cells, "graph", GRAPH_ORDER)
    figure, grid = _grid(len(graphs), len(splits), height=2.5)
    styles = style.method_styles(c.key for c in cells)
    for c in cells:
        axes = grid[graphs.index(c.key.graph)][splits.index(c.key.split)]
        panels.draw_agents(axes, c.runs[0], styles[c.key.name])
    for column, split in enumerate(splits):
        grid[0][column].set_title(f"{split} data")
        grid[-1][column].set_xlabel("epochs of the local data")
    for row, graph in zip(grid, graphs, strict=True):
        row[0].set_ylabel(f"{graph}\ntest accuracy, %")
    return _finished(figure, grid, f"{cells[0].key.name}, {_agents(cells)}: agents and averaged model")


def _loss_column(
    column: list[Any], title: str, groups: dict[str, Any], styles: dict[str, style.Style], first: bool
) -> None:
    for axes, (label, measure) in zip(column, LOSSES.items(), strict=True):
        panels.draw_curves(axes, groups, styles, series.epoch, measure, between=label == OWN_LOSS_LABEL)
        panels.log_loss(axes)
        if first:
            axes.set_ylabel(f"loss: {label}")
    column[0].set_title(title)
    column[-1].set_xlabel("epochs of the local data")


def _accuracy_figure(
    cells: list[SeedGroup], inner: str, groups: list[Any], outer: str, columns: list[Any], title: str
) -> Any:
    splits = _axis(cells, "split", SPLIT_ORDER)
    figure, grid = _grid(len(splits), len(columns), height=2.9)
    styles = style.method_styles(c.key for c in cells)
    for row, split in zip(grid, splits, strict=True):
        for axes, column in zip(row, columns, strict=True):
            here = [c for c in cells if c.key.split == split and getattr(c.key, outer) == column]
            panels.draw_pairs(axes, here, groups, inner, styles)
            axes.set_title(f"{title.format(column)}, {split}")
        row[0].set_ylabel("test accuracy, %")
    if inner == "agents":
        for axes in grid[-1]:
            axes.set_xlabel("agents")
    for label, fill, size in (("averaged model", "0.4", 5), ("mean agent", "white", 8)):
        look = {"color": "0.4", "marker": "o", "markerfacecolor": fill, "markersize": size}
        grid[-1][-1].plot([], [], linestyle="none", label=label, **look)
    by = "graph" if inner == "graph" else "number of agents"
    return _finished(figure, grid, f"Test accuracy by {by}, mean and deviation over seeds")


def _grid(rows: int, columns: int, height: float = 2.7) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * columns + 1.9, height * rows + 0.7), layout="constrained")
    return figure, figure.subplots(rows, columns, sharey="row", squeeze=False)


def _finished(figure: Any, grid: Any, title: str, log: bool = False) -> Any:
    """The same figure with its title and one legend for all panels."""
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if log:
        for row in grid:
            panels.cut_off(row)
    if panels.DIVERGED_NOTE in handles:
        del handles[panels.DIVERGED_NOTE]  # it has some method's colour and stands between the others
        handles[panels.DIVERGED_NOTE] = panels.grey_cross()
    figure.legend(handles.values(), handles, loc="outside right center")
    figure.suptitle(title, fontsize=11)
    return figure


def _axis(cells: list[SeedGroup], axis: str, known: Sequence[Any]) -> list[Any]:
    return ordered((getattr(c.key, axis) for c in cells), known)


def _agents(cells: list[SeedGroup]) -> str:
    counts = {len(c.runs) for c in cells}
    seeds = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
    return f"{cells[0].key.agents} agents, {'1 seed' if seeds == '1' else f'mean of {seeds} seeds'}"


FIGURE_PLANS = (
    FigurePlan("loss-by-graph", selection.projecting, NO_PROJECTION, loss_by_graph),
    FigurePlan("loss-by-method", selection.non_iid, "there is no run on non-IID data.", loss_by_method),
    FigurePlan(
        "accuracy-by-graph",
        selection.several("graph"),
        "the runs that have ended are not on several graphs.",
        accuracy_by_graph,
    ),
    FigurePlan(
        "accuracy-by-agents",
        selection.several("agents"),
        "the runs that have ended do not differ in their number of agents.",
        accuracy_by_agents,
    ),
    FigurePlan("loss-by-cost", selection.on_one_graph, "there is no run on non-IID data.", loss_by_cost),
    FigurePlan(
        "agents-and-average",
        selection.projecting_tested,
        NO_TESTED_PROJECTION,
        agents_and_average,
    ),
)
