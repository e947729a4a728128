"""Put the tables and figures of the kept runs into docs/reproduction.md and docs/reproduction/.

    python results/tables.py

Each folder here has the settings and records of a reproduction or a sweep (`crossgrad pack`); README.md says which
commands made them.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from crossgrad._paper.beside import Row, rows
from crossgrad._paper.status import status_of
from crossgrad._paper.tables import cell, paper_table
from crossgrad._report.by_epoch import Panel, draw_by_epoch
from crossgrad._report.figures import draw_all
from crossgrad._report.seed_groups import GroupKey, SeedGroup, group_by_seed, key_of
from crossgrad._runs.results import PACKED, RunResult, read_results
from crossgrad._sweep.grid import read_grid
from crossgrad.records import Record

HERE = Path(__file__).parent
VARIANT_NAMES = {"data alike": "IID data"}  # by the labels of the kept records
DOCS = HERE.parent / "docs"
GRAPHS = {"fully-connected": "full", "ring": "ring", "bipartite": "bipartite"}

# Where the runs with the paper's images and with images of half the side are; of each cell the longest run counts.
SCALES = {
    "paper": (
        *("mnist-autocast", "mnist-settled", "mnist-long", "mnist", "mnist-full-10"),
        *("cifar10-autocast", "cifar10"),
    ),
    "half": ("mnist-half-autocast", "mnist-half-settled", "mnist-half"),
}
MNIST, CIFAR = "mnist-cnn-noniid", "cifar10-cnn-noniid"
DATA = {MNIST: "MNIST", CIFAR: "CIFAR-10"}
NAMES = ("DPSGD", "SGP", "SwarmSGD", "CGA (paper)", "CGA (released)")
CELLS = [(MNIST, graph, agents, name) for agents in (5, 10) for graph in GRAPHS for name in NAMES]
CELLS += [(CIFAR, "ring", 5, name) for name in ("DPMSGD", "SGP", "CGA (paper)", "CGA (released)", "EDM")]
HALF_SIDE = "14x14"
SIDES = {"paper": "28x28", "half": HALF_SIDE}
READINGS = {"paper": "the text, momentum 0.98", "released": "all four (released), momentum 0.98"}
DRAWN = (("ring", 5), ("ring", 10), ("fully-connected", 5))


def main() -> None:
    page = DOCS / "reproduction.md"
    text = filled(page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")
    drawn = _draw_mnist_by_epoch()
    for packed in sorted(HERE.glob(f"*/{PACKED}")):
        name = packed.parent.name
        if f"reproduction/{name}/" in text:
            drawn += draw_all(read_results(packed.parent), DOCS / "reproduction" / name).paths
    for picture in drawn:
        if str(picture.relative_to(DOCS)) not in text:
            picture.unlink()


def filled(text: str) -> str:
    """The page with every table made again: each stands between two comments that name its folder and its table.

    The table is one of the paper's, "variants" or "readings" for a sweep of its own, or "verdicts", "sizes" or "passes"
    for all folders together.
    """
    all_folders = {"verdicts": _verdicts, "sizes": _sizes, "passes": _passes}
    own = {"variants": _variants, "readings": _readings}

    def table(found: "re.Match[str]") -> str:
        folder, name = found.group(1), found.group(2)
        if name in all_folders:
            made = all_folders[name]()
        else:
            made = own[name](folder) if name in own else _table(rows(read_results(HERE / folder), name))
        return f"<!-- {folder} {name} -->\n{made}<!-- end -->"

    return re.sub(r"<!-- ([\w.-]+) ([\w-]+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def _table(found: list[Row]) -> str:
    """A row for each method, a column for each graph and number of agents: averaged / mean agent / worst agent."""
    columns = sorted({(row.agents, row.graph) for row in found}, key=lambda c: (c[0], list(GRAPHS).index(c[1])))
    cells = {(row.name, row.agents, row.graph): row for row in found}
    names = list(dict.fromkeys(row.name for row in found))
    lines = [["", *(f"{GRAPHS[graph]} {agents}" for agents, graph in columns)], ["---"] + ["---:"] * len(columns)]
    lines += [[name, *(_cell(cells.get((name, *column))) for column in columns)] for name in names]
    return "".join(map(_line, lines))


def _verdicts() -> str:
    """A line for each of CELLS: the paper's number, ours, and whether it was reached; then ours at half size."""
    head = ["data", "graph", "method", "paper", "ours", "epochs", "verdict", "at half size", "epochs"]
    lines = [head, ["---"] * 3 + ["---:"] * 3 + ["---"] + ["---:"] * 2]
    runs = {(table, scale): _longest(scale, table) for table in (MNIST, CIFAR) for scale in SCALES}
    found = {
        (*place, row.graph, row.agents, row.name): row for place, here in runs.items() for row in rows(here, place[0])
    }
    rounded = {(*place, *_place(key_of(run))) for place, here in runs.items() for run in here if _in_bfloat16(run)}
    for table, graph, agents, name in CELLS:
        places = [(table, scale, graph, agents, name) for scale in SCALES]
        (ours, *shown), (_, *half) = ((found.get(p), *_numbers_and_epochs(found.get(p), p in rounded)) for p in places)
        theirs, where = cell(table, name.partition(" ")[0], graph, agents), f"{GRAPHS[graph]} {agents}"
        verdict = "not run" if ours is None else ours.verdict
        lines.append([DATA[table], where, name, str(theirs or ""), *shown, verdict, *half])
    return "".join(map(_line, lines))


def _numbers_and_epochs(row: Row | None, in_bfloat16: bool) -> tuple[str, str]:
    return ("", "") if row is None else (_numbers(row, 1), f"{row.epochs:.0f}{' b' if in_bfloat16 else ''}")


def _variants(folder: str) -> str:
    """A line for each variant of a sweep, in the order of its grid: the three accuracies by epoch, and how it ended."""
    runs = {result.labels["variant"]: result for result in read_results(HERE / folder)}
    epochs = sorted({round(record.epoch) for run in runs.values() for record in run.records if record.step})
    lines = [["", *(f"epoch {epoch}" for epoch in epochs), "ended"], ["---"] + ["---:"] * len(epochs) + ["---"]]
    for planned in read_grid(HERE / folder / "grid.toml").cells:
        name = planned.labels["variant"]
        own = [runs[name]] if name in runs else []
        at = {round(record.epoch): record for run in own for record in run.records}
        ended = status_of(own).removesuffix(" 1 of 1")
        lines.append([VARIANT_NAMES.get(name, name), *(_three(at[e]) if e in at else "" for e in epochs), ended])
    return "".join(map(_line, lines))


def _readings(folder: str) -> str:
    """Where each reading of the paper's CGA on MNIST's ring of 10 came, the nearest to the paper's number first."""
    (theirs,) = (c.accuracy for c in paper_table(MNIST).cells if (c.method, c.graph, c.agents) == ("CGA", "ring", 10))
    assert theirs is not None
    found = [
        (VARIANT_NAMES.get(run.labels["variant"], run.labels["variant"]), HALF_SIDE, run)
        for run in read_results(HERE / folder)
        if run.experiment["partition"]["name"] == "class"
    ]
    for scale, side in SIDES.items():
        runs = {key_of(run): run for run in _longest(scale, MNIST)}
        cga = [(key, run) for key, run in runs.items() if (key.method, key.graph, key.agents) == ("CGA", "ring", 10)]
        found += [(f"{READINGS[key.variant]}, longest run", side, run) for key, run in cga]
    lines = []
    for name, side, run in found:
        last, best = run.records[-1], max(run.records[1:], key=lambda record: record.accuracy or 0.0)
        below = [theirs - _percent(share) for share in (best.accuracy, last.accuracy, last.mean_agent)]
        shown = [f"{below[0]:.1f} (epoch {best.epoch:.0f})", f"{below[1]:.1f}", f"{below[2]:.1f}"]
        ended = status_of([run]).removesuffix(" 1 of 1")
        lines.append((below[0], [name, side, *shown, f"{last.epoch:.0f}", ended]))
    head = ["reading", "images", "averaged, at its nearest", "averaged, last", "mean agent, last", "epochs", "ended"]
    nearest_first = [line for _, line in sorted(lines, key=lambda line: line[0])]
    return "".join(map(_line, [head, ["---"] * 2 + ["---:"] * 4 + ["---"], *nearest_first]))


def _sizes() -> str:
    """The cells of MNIST that were run at both sizes, at the last epoch that both have."""
    runs = {scale: {key_of(run): run for run in _longest(scale, MNIST)} for scale in SIDES}
    head = ["graph", "method", "epoch", *(f"images of {side}" for side in SIDES.values()), "half - full size"]
    lines = [head, ["---"] * 2 + ["---:"] * 4]
    for table, graph, agents, name in CELLS:
        both = [[run for key, run in runs[s].items() if _place(key) == (graph, agents, name)] for s in SIDES]
        if table == MNIST and all(both):
            at = [{round(record.epoch): record for record in found[0].records} for found in both]
            epoch = max(set(at[0]) & set(at[1]))
            full, half = (records[epoch] for records in at)
            change = f"{_percent(half.accuracy) - _percent(full.accuracy):+.0f}"
            lines.append([f"{GRAPHS[graph]} {agents}", name, str(epoch), _three(full), _three(half), change])
    return "".join(map(_line, lines))


def _passes() -> str:
    """The cells and seeds that were run both in float32 and in bfloat16, at the last epoch that both have."""
    head = ["images", "graph", "method", "seed", "epoch", "float32", "bfloat16", "difference"]
    lines = [head, ["---"] * 3 + ["---:"] * 5]
    for scale, side in SIDES.items():
        exact, rounded = (
            {(_place(key_of(run)), run.labels["seed"]): run for run in _longest(scale, MNIST, in_bfloat16)}
            for in_bfloat16 in (False, True)
        )
        for (graph, agents, name), seed in sorted(exact.keys() & rounded.keys()):
            both = [runs[(graph, agents, name), seed] for runs in (exact, rounded)]
            at = [{round(record.epoch): record for record in run.records if record.step} for run in both]
            if common := set(at[0]) & set(at[1]):
                old, new = (records[max(common)] for records in at)
                change = f"{_percent(new.accuracy) - _percent(old.accuracy):+.1f}"
                place = [side, f"{GRAPHS[graph]} {agents}", name, seed, str(max(common))]
                lines.append([*place, _three(old), _three(new), change])
    return "".join(map(_line, lines))


def _in_bfloat16(run: RunResult) -> bool:
    return bool(run.experiment["training"].get("autocast"))


def _place(key: GroupKey) -> tuple[str, int, str]:
    return key.graph, key.agents, key.name


def _percent(share: float | None) -> float:
    assert share is not None  # all of these runs have test data
    return 100 * share


def _three(record: Record) -> str:
    three = (record.accuracy, record.mean_agent, record.worst_agent)
    return " / ".join(f"{100 * share:.0f}" for share in three if share is not None)


def _longest(scale: str, table: str, in_bfloat16: bool | None = None) -> list[RunResult]:
    """Of each cell and seed of a table the run that went on longest; in one precision only, where one is given."""
    longest: dict[object, RunResult] = {}
    for folder in (name for name in SCALES[scale] if (HERE / name).is_dir()):
        for result in read_results(HERE / folder):
            place, last = (key_of(result), result.labels.get("seed")), result.last
            wanted = in_bfloat16 is None or in_bfloat16 == _in_bfloat16(result)
            if (
                wanted
                and result.experiment["data"]["name"] == paper_table(table).data
                and last is not None
                and last.step > 0
            ):
                before = longest.get(place)
                if before is None or before.records[-1].epoch < last.epoch:
                    longest[place] = result
    return list(longest.values())


def _draw_mnist_by_epoch() -> list[Path]:
    """The averaged model's accuracy on MNIST: a row for each scale, a column for each graph and number of agents."""
    grid = {}
    for scale, side in SIDES.items():
        cells = [c for c in group_by_seed(_longest(scale, MNIST)) if c.key.name in NAMES]
        grid[f"images of {side}"] = [_panel(cells, graph, agents) for graph, agents in DRAWN]
    title = "MNIST, classes of their own for each agent: the averaged model"
    return draw_by_epoch(grid, title, DOCS / "reproduction" / "mnist", "accuracy-by-epoch")


def _panel(cells: list[SeedGroup], graph: str, agents: int) -> Panel:
    here = [c for c in cells if (c.key.graph, c.key.agents) == (graph, agents)]
    theirs = {c.key.name: cell(MNIST, c.key.method, graph, agents) for c in here}
    reported = {name: paper.accuracy for name, paper in theirs.items() if paper and paper.accuracy is not None}
    return Panel(f"{graph}, {agents} agents", here, reported)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    ours = _numbers(row, 0)
    return f"{ours} ({row.paper})" if row.paper is not None else ours


def _numbers(row: Row, digits: int) -> str:
    """Averaged / mean agent / worst agent."""
    known = [value for value in (row.averaged, row.mean_agent, row.worst_agent) if value is not None]
    return " / ".join(f"{value:.{digits}f}" for value in known) + (" †" if "diverged" in row.status else "")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
