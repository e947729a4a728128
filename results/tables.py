"""Put the tables and figures of the kept runs into docs/reproduction.md and docs/reproduction/.

    python results/tables.py

Each folder here has the settings and records of a reproduction (`crossgrad pack`); its README.md says which commands.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from crossgrad._paper.beside import Row, rows
from crossgrad._report.figures import draw_all
from crossgrad._runs.results import PACKED, read_results

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
GRAPHS = {"fully-connected": "full", "ring": "ring", "bipartite": "bipartite"}


def main() -> None:
    page = DOCS / "reproduction.md"
    text = filled(page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")
    for packed in sorted(HERE.glob(f"*/{PACKED}")):
        name = packed.parent.name
        if f"reproduction/{name}/" in text:
            for picture in draw_all(read_results(packed.parent), DOCS / "reproduction" / name).paths:
                if f"reproduction/{name}/{picture.name}" not in text:
                    picture.unlink()


def filled(text: str) -> str:
    """The page with every table made again: each stands between two comments that name its folder and its table."""

    def table(found: "re.Match[str]") -> str:
        folder, name = found.group(1), found.group(2)
        return f"<!-- {folder} {name} -->\n{_table(rows(read_results(HERE / folder), name))}<!-- end -->"

    return re.sub(r"<!-- ([\w.-]+) ([\w-]+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def _table(found: list[Row]) -> str:
    """A row for each method, a column for each graph and number of agents: averaged / mean agent / worst agent."""
    columns = sorted({(row.agents, row.graph) for row in found}, key=lambda c: (c[0], list(GRAPHS).index(c[1])))
    cells = {(row.name, row.agents, row.graph): row for row in found}
    names = list(dict.fromkeys(row.name for row in found))
    lines = [["", *(f"{GRAPHS[graph]} {agents}" for agents, graph in columns)], ["---"] + ["---:"] * len(columns)]
    lines += [[name, *(_cell(cells.get((name, *column))) for column in columns)] for name in names]
    return "".join(_line(line) for line in lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    shared = [f"{value:.0f}" for value in (row.averaged, row.mean_agent, row.worst_agent) if value is not None]
    ours = " / ".join(shared) + (" †" if "diverged" in row.status else "")
    return f"{ours} ({row.paper})" if row.paper is not None else ours


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
