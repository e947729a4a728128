"""Put the kept benchmark into docs/benchmark.md, docs/benchmark.html and the rows that `crossgrad advise` rests on.

python results/benchmark.py
"""

import re
from pathlib import Path

from crossgrad._benchmark.combinations import (
    BENCHMARK_AGENTS,
    BENCHMARK_GRAPHS,
    BENCHMARK_SPLITS,
    BenchmarkPart,
    combinations,
)
from crossgrad._benchmark.page import write_benchmark_page
from crossgrad._benchmark.rows import keep_rows
from crossgrad._runs.results import PACKED, read_results
from crossgrad._tuning.plan import LEAST_SEEDS
from crossgrad._tuning.standings import HEADINGS, Standing, as_cells, ranked, standings

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
SPLIT_NAMES = {"class": "one class each", "dirichlet": "Dirichlet 0.1", "iid": "IID"}


def rows() -> list[Standing]:
    """The rows of the kept runs: of combinations that have been run with enough seeds for an interval."""
    found = standings(read_results(HERE / "benchmark")) if (HERE / "benchmark" / PACKED).exists() else []
    return [row for row in found if len(row.seeds) >= LEAST_SEEDS]


def tables(found: list[Standing]) -> str:
    """A table for each number of agents, split and graph of which there are rows."""
    parts = []
    for agents in BENCHMARK_AGENTS:
        for split in BENCHMARK_SPLITS:
            for graph in BENCHMARK_GRAPHS:
                place = {"graph": graph, "agents": str(agents), "split": split}
                here = [row for row in found if place.items() <= row.labels.items()]
                if here:
                    parts.append(f"### {agents} agents, {graph}, {SPLIT_NAMES[split]}\n\n{_table(here)}\n")
    return "".join(parts) or "Nothing has been run yet.\n"


def _table(here: list[Standing]) -> str:
    lines = [["method", *HEADINGS], ["---"] + ["---:"] * len(HEADINGS)]
    lines += [[row.labels["algorithm"], *as_cells(row)] for row in ranked(here)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def coverage(found: list[Standing]) -> str:
    """How many of all combinations have been run, and at which commits."""
    entries, refused = combinations(BenchmarkPart())
    every = sorted({commit for row in found for commit in row.commit.split(", ")})
    commits = ", ".join(f"`{one}`" for one in every)
    return (
        f"{len(found)} of {len(entries)} combinations have been run (commits {commits or 'none'}); "
        f"{len(refused)} more are refused by a method's needs.\n"
    )


def refusals() -> str:
    """Which methods are refused on which graph, by a sentence for each need."""
    _, refused = combinations(BenchmarkPart())
    alike: dict[tuple[str, str], list[str]] = {}
    for one in refused:
        if one.labels["graph"] != "tree":
            need = re.sub(r"; .*", "", one.reason.partition(" ")[2])
            alike.setdefault((one.labels["graph"], need), []).append(one.labels["algorithm"])
    lines = ["| graph | methods | why |\n| --- | --- | --- |\n"]
    for (graph, need), names in alike.items():
        lines.append(f"| {graph} | {'; '.join(dict.fromkeys(names))} | it {need} |\n")
    return "".join(lines)


def filled(text: str) -> str:
    """The page with every table made again, each between two comments that name it."""
    found = rows()
    made = {
        "benchmark-coverage": coverage(found),
        "benchmark-tables": tables(found),
        "benchmark-refused": refusals(),
    }
    return re.sub(
        r"<!-- (benchmark-\w+) -->\n.*?<!-- end -->",
        lambda at: f"<!-- {at[1]} -->\n{made[at[1]]}<!-- end -->",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    page = DOCS / "benchmark.md"
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    write_benchmark_page(rows(), DOCS / "benchmark.html")
    keep_rows(rows())
