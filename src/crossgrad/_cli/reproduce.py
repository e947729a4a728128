"""`crossgrad reproduce`: the paper's tables and figures from runs of our own, with its numbers beside ours."""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from crossgrad._cli.console import say
from crossgrad._cli.sweep import SweepOptions, run_cells
from crossgrad._cli.tables import accuracy_table, rates_table
from crossgrad._paper import beside, table1
from crossgrad._paper.reproduction import Choice, grid
from crossgrad._paper.tables import AGENTS, GRAPHS, TABLES, PaperTable
from crossgrad._report.figures import draw_all
from crossgrad._report.page import write_page
from crossgrad._runs.results import Result, read_results
from crossgrad._storage import atomic
from crossgrad._sweep.grid import Grid
from crossgrad.experiments.experiment import to_table


def reproduce(choice: Choice, out: Path, means: SweepOptions) -> None:
    """Run the cells that have not been run; then the tables, the figures and the page of all that there is."""
    cells = grid(choice)
    folder = out / choice.name
    folder.mkdir(parents=True, exist_ok=True)
    complete = run_cells(folder, cells, means)
    results = _alike(read_results(folder), cells)
    console = Console()
    for table in choice.tables:
        rows = beside.rows(results, table.name)
        console.print(accuracy_table(rows, f"{table.title}: accuracy in %, ours beside the paper's"))
        for note in beside.notes_on(rows):
            say(console, note)
    _keep(folder, choice, results)
    drawn = draw_all(results, folder / "figures")
    print(f"Table: {folder / 'table.md'}")
    if drawn.paths:
        print(f"Figures: {folder / 'figures'}")
    try:
        print(f"Page: {write_page(folder, folder / 'report.html')}")
    except ValueError as error:  # the tables and the figures are there
        print(f"No page: {error}")
    if not complete:
        sys.exit(1)


def _alike(results: list[Result], cells: Grid) -> list[Result]:
    """The results of this length and model; the folder may have cells of an earlier command with another."""
    wanted = to_table(cells.cells[0].experiment)
    return [r for r in results if all(r.experiment.get(key) == wanted[key] for key in ("training", "model", "data"))]


def _keep(folder: Path, choice: Choice, results: list[Result]) -> None:
    """The tables, for people as Markdown and for the page as JSON."""
    parts, plain = [], []
    for table in choice.tables:
        rows = beside.rows(results, table.name)
        parts.append(f"## {table.title}\n\n{beside.as_markdown(rows)}")
        plain += [{"split": table.split, **row} for row in beside.as_json(rows, choice.command)]
    text = "\n".join([*parts, f"Made by `{choice.command()}`.\n"])
    atomic.write(folder / "table.md", [text.encode()])
    title = " and ".join(table.title for table in choice.tables)
    notes = beside.notes_on([row for table in choice.tables for row in beside.rows(results, table.name)])
    content = {"title": title, "table": choice.table, "scale": choice.scale, "note": " ".join(notes), "rows": plain}
    atomic.write_json(folder / "reproduction.json", content)


def reproduce_table1(agents: tuple[int, ...], graphs: tuple[str, ...], out: Path) -> None:
    """Table 1 for each graph and number of agents, with the bytes of short runs."""
    console, parts = Console(), []
    for graph in graphs:
        for count in agents:
            rows, title = table1.table1(graph, count), f"Table 1 for {count} agents, {graph}"
            console.print(rates_table(rows, title))
            parts.append(f"## {title}\n\n{table1.as_markdown(rows)}")
            for note in table1.notes_on(rows):
                say(console, note)
    out.mkdir(parents=True, exist_ok=True)
    atomic.write(out / "table1.md", ["\n".join(parts).encode()])
    print(f"Table: {out / 'table1.md'}")


def list_all() -> None:
    """The paper's tables, each with what it compares."""
    console = Console()
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_column(no_wrap=True)
    shown.add_column()
    for table in TABLES.values():
        shown.add_row(table.name, _about(table))
    shown.add_row("table1", "Rates, and communication per mini-batch: the formulas with the bytes of short runs")
    console.print(shown)
    say(console, f"Each for {', '.join(map(str, AGENTS))} agents, {', '.join(GRAPHS)}. `crossgrad reproduce --help`")


def _about(table: PaperTable) -> str:
    return f"{table.title}: {', '.join(table.methods)}"
