"""`crossgrad reproduce`: the paper's tables and figures from our own runs, beside the paper's numbers."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import SweepOptions, takes

if TYPE_CHECKING:
    from crossgrad._paper.reproduction import Choice
    from crossgrad._runs.results import RunResult
    from crossgrad._sweep.grid import Grid


@app.command(
    epilog=examples(
        "crossgrad reproduce --list",
        "crossgrad reproduce cifar10-cnn --scale digits",
        "crossgrad reproduce cifar10-cnn-noniid --agents 5 --graph ring --algorithm cga --epochs 20",
        "crossgrad reproduce table1 --graph ring --agents 10",
        "crossgrad reproduce mnist-cnn-noniid --agents 5 --algorithm cga --algorithm cga:released --seeds 3",
    ),
)
@takes(SweepOptions)
def reproduce(
    options: SweepOptions,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="A table that --list names; cifar10-cnn, for example, is IID and non-IID together."
        ),
    ] = None,
    list_tables: Annotated[bool, typer.Option("--list", help="List the paper's tables.")] = False,
    agents: Annotated[list[int] | None, typer.Option("--agents", "-n", help="5, 10 or 40; default: all.")] = None,
    graph: Annotated[list[str] | None, typer.Option(help="fully-connected, ring or bipartite; default: all.")] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option(help="A method, such as cga or cga:released; default: those of the table.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(min=0.0, help="Epochs of the local data; default: 150.")] = None,
    scale: Annotated[
        str, typer.Option(help="paper; half: images of half the side; digits: small images, in minutes.")
    ] = "paper",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each cell.")] = 1,
    evaluations: Annotated[int, typer.Option(min=1, help="Number of evaluations of each run.")] = 20,
    until_settled: Annotated[
        bool,
        typer.Option(
            "--until-settled", help="End a run when its accuracy has moved less than 0.2 points over 3 epochs."
        ),
    ] = False,
    autocast: Annotated[
        bool,
        typer.Option("--autocast", help="Compute passes in bfloat16, which is faster on processors that support it."),
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder in which each table's own folder is made.")
    ] = Path("reproductions"),
) -> None:
    """Run cells of the paper's tables and print the results beside the paper's numbers.

    Finished cells are not run again; stopped ones resume.
    """
    from crossgrad._paper.reproduction import Choice
    from crossgrad._paper.tables import PAPER_AGENTS, PAPER_GRAPHS

    if list_tables or table is None:
        _list_tables()
    elif table == "table1":
        _table1(tuple(agents or (10,)), tuple(graph or ("ring",)), out)
    else:
        sizes = tuple(agents or PAPER_AGENTS), tuple(graph or PAPER_GRAPHS)
        wanted = tuple(algorithm or ())
        _run_reproduction(
            Choice(table, *sizes, wanted, scale, epochs, seeds, evaluations, until_settled, autocast), out, options
        )


def _run_reproduction(choice: "Choice", out: Path, options: SweepOptions) -> None:
    """Run the cells that have not been run; then write tables, figures and page of everything in the folder."""
    from rich.console import Console

    from crossgrad._cli.console import say
    from crossgrad._cli.tables import accuracy_table
    from crossgrad._cli.workers import run_cells
    from crossgrad._paper import beside
    from crossgrad._paper.reproduction import grid
    from crossgrad._report.figures import draw_all
    from crossgrad._report.page import write_page
    from crossgrad._runs.results import read_results

    cells = grid(choice)
    folder = out / choice.name
    folder.mkdir(parents=True, exist_ok=True)
    complete = run_cells(folder, cells, options)
    damaged: dict[str, str] = {}
    results = _comparable(read_results(folder, damaged), cells)
    console = Console()
    for name, reason in damaged.items():
        say(console, f"Warning: {name} is left out: {reason}")
    for table in choice.tables:
        rows = beside.rows(results, table.name)
        console.print(accuracy_table(rows, f"{table.title}: accuracy in %, ours beside the paper's"))
        for note in beside.notes_on_rows(rows):
            say(console, note)
    _keep(folder, choice, results)
    drawn = draw_all(results, folder / "figures")
    print(f"Table: {folder / 'table.md'}")
    if drawn.paths:
        print(f"Figures: {folder / 'figures'}")
    try:
        print(f"Page: {write_page(folder, folder / 'report.html')}")
    except ValueError as error:  # tables and figures have been written
        print(f"No page: {error}")
    if not complete:
        sys.exit(1)


def _comparable(results: "list[RunResult]", cells: "Grid") -> "list[RunResult]":
    """The results of this length, model and data; the folder may have cells of an earlier command with others."""
    from crossgrad.experiments.files import to_table

    wanted = to_table(cells.cells[0].experiment)
    return [r for r in results if all(r.experiment.get(key) == wanted[key] for key in ("training", "model", "data"))]


def _keep(folder: Path, choice: "Choice", results: "list[RunResult]") -> None:
    """Write the tables as Markdown for people and as JSON for the page."""
    from crossgrad._paper import beside
    from crossgrad._storage import atomic

    parts, plain = [], []
    for table in choice.tables:
        rows = beside.rows(results, table.name)
        parts.append(f"## {table.title}\n\n{beside.rows_as_markdown(rows)}")
        plain += [{"split": table.split, **row} for row in beside.as_json(rows, choice.command)]
    text = "\n".join([*parts, f"Made by `{choice.command()}`.\n"])
    atomic.write(folder / "table.md", [text.encode()])
    title = " and ".join(table.title for table in choice.tables)
    notes = beside.notes_on_rows([row for table in choice.tables for row in beside.rows(results, table.name)])
    content = {"title": title, "table": choice.table, "scale": choice.scale, "note": " ".join(notes), "rows": plain}
    atomic.write_json(folder / "reproduction.json", content)


def _table1(agents: tuple[int, ...], graphs: tuple[str, ...], out: Path) -> None:
    """Print Table 1 for each graph and number of agents, with the bytes of short runs."""
    from rich.console import Console

    from crossgrad._cli.console import say
    from crossgrad._cli.tables import rates_table
    from crossgrad._paper import table1
    from crossgrad._storage import atomic

    console, parts = Console(), []
    for graph in graphs:
        for count in agents:
            rows, title = table1.table1(graph, count), f"Table 1 for {count} agents, {graph}"
            console.print(rates_table(rows, title))
            parts.append(f"## {title}\n\n{table1.rates_as_markdown(rows)}")
            for note in table1.notes_on_rates(rows):
                say(console, note)
    out.mkdir(parents=True, exist_ok=True)
    atomic.write(out / "table1.md", ["\n".join(parts).encode()])
    print(f"Table: {out / 'table1.md'}")


def _list_tables() -> None:
    """Print the paper's tables, each with the methods that it compares."""
    from rich.console import Console
    from rich.table import Table

    from crossgrad._cli.console import say
    from crossgrad._paper.tables import PAPER_AGENTS, PAPER_GRAPHS, PAPER_TABLES

    console = Console()
    listed = Table(box=None, pad_edge=False, show_header=False)
    listed.add_column(no_wrap=True)
    listed.add_column()
    for table in PAPER_TABLES.values():
        listed.add_row(table.name, f"{table.title}: {', '.join(table.methods)}")
    listed.add_row("table1", "Rates, and communication per mini-batch: the formulas with the bytes of short runs")
    console.print(listed)
    say(
        console,
        f"Each for {', '.join(map(str, PAPER_AGENTS))} agents, {', '.join(PAPER_GRAPHS)}. `crossgrad reproduce --help`",
    )
