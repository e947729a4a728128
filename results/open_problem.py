"""Put the tables of the kept runs into docs/open-problem.md.

    python results/open_problem.py

Each cell of the sweep is set beside what `crossgrad.algorithms.gossip_stability` says of its gossip.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from crossgrad import graphs
from crossgrad._runs.results import PACKED, RunResult, read_results
from crossgrad._tuning.standings import as_cells, standings
from crossgrad.algorithms.gossip_choice import ENOUGH
from crossgrad.algorithms.gossip_mixing import disagreement_left
from crossgrad.algorithms.gossip_stability import ERROR_MARGIN, tolerated_error
from crossgrad.codecs import Quantised
from crossgrad.models.zoo import MLP

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "open-problem.md"
GAMMAS = ("1.0", "0.7", "0.5", "0.3")
LEARNT = 0.95  # accuracy of the mean agent from which a run with 8 bits shows what the others could reach
YARDSTICKS = ("fully connected: CGA", "all data in one place")  # whose mean agent the others are held against
SPOILT = 0.02  # so much less than with 8 bits, or an end as diverged, is laid to the codec


class Cell(NamedTuple):
    """A run, and how many times the error of its codec its gossip tolerates."""

    result: RunResult
    ratio: float

    @property
    def place(self) -> tuple[str, str, str, str]:
        graph, bits, rounds, gamma = self.result.labels.values()
        return graph, bits, rounds, gamma

    @property
    def mean_agent(self) -> float:
        return self.result.records[-1].mean_agent or 0.0

    @property
    def diverged(self) -> bool:
        return (self.result.summary or {}).get("status") != "ok"

    def __str__(self) -> str:
        last = self.result.records[-1]
        three = (last.accuracy, last.mean_agent, last.worst_agent)
        numbers = " / ".join(f"{100 * share:.1f}" for share in three if share is not None)
        return f"{numbers}{' †' if self.diverged else ''} ({self.ratio:.1f})"


def cells() -> Iterator[Cell]:
    """The runs of the sweep."""
    numbers = sum(p.numel() for p in MLP(hidden=(32,)).build((1, 8, 8), 10).parameters())
    of = {"ring": graphs.ring(40), "bipartite": graphs.bipartite(40)}
    for result in read_results(HERE / "gossip-boundary"):
        graph, bits, rounds, gamma = result.labels.values()
        tolerated = tolerated_error(of[graph].dense(), int(rounds), float(gamma), chebyshev=True, lazy=0.5)
        yield Cell(result, tolerated / Quantised(int(bits)).relative_error(numbers))


def boundary() -> str:
    """A line for each graph, number of bits and rounds, a column for each gamma."""
    found = {cell.place: cell for cell in cells()}
    kinds = sorted({place[:3] for place in found}, key=lambda kind: (kind[0] != "ring", *map(int, kind[1:])))
    lines = [["graph", "bits", "rounds", *(f"gamma {gamma}" for gamma in GAMMAS)], ["---"] * 7]
    lines += [[*kind, *(str(found[*kind, gamma]) for gamma in GAMMAS)] for kind in kinds]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def counts() -> str:
    """How many runs with 3 and 4 bits were spoilt, by how many times the codec's error was tolerated."""
    found = {cell.place: cell for cell in cells()}
    fair = [
        (cell, exact)
        for (graph, bits, *rest), cell in found.items()
        if bits != "8" and (exact := found[graph, "8", *rest]).mean_agent >= LEARNT
    ]
    bounds = [0.0, 0.7, 1.0, ERROR_MARGIN, float("inf")]
    names = ["less than 0.7", "0.7 to 1", f"1 to {ERROR_MARGIN:g}", f"{ERROR_MARGIN:g} and more"]
    lines = ["| error tolerated / error of the codec | runs | spoilt |\n", "| --- | ---: | ---: |\n"]
    for name, low, high in zip(names, bounds[:-1], bounds[1:], strict=True):
        among = [pair for pair in fair if low <= pair[0].ratio < high]
        spoilt = [cell for cell, exact in among if cell.diverged or cell.mean_agent < exact.mean_agent - SPOILT]
        lines.append(f"| {name} | {len(among)} | {len(spoilt)} |\n")
    return "".join(lines)


def left() -> str:
    """The accuracy of the mean agent of runs that rounding errors do not spoil, by what an averaging leaves."""
    of = {"ring": graphs.ring(40), "bipartite": graphs.bipartite(40)}
    found = []
    for cell in cells():
        graph, _, rounds, gamma = cell.place
        share = disagreement_left(tuple(of[graph].eigenvalues), int(rounds), float(gamma), chebyshev=True, lazy=0.5)
        if cell.ratio >= ERROR_MARGIN:
            found.append((share, 100 * cell.mean_agent))
    bounds = [0.0, ENOUGH, 0.6, 0.7, 0.8, 1.0]
    lines = ["| share that is left | runs | mean agent, % |\n", "| --- | ---: | ---: |\n"]
    for low, high in pairwise(bounds):
        among = [accuracy for share, accuracy in found if low <= share < high]
        lines.append(f"| {low:g} to {high:g} | {len(among)} | {min(among):.1f} to {max(among):.1f} |\n")
    return "".join(lines)


def tuned(folder: str) -> str:
    """A line for each method of a tuning: what it reaches, how far that is from the yardsticks, and what it costs."""
    if not (HERE / folder / PACKED).exists():
        return "Not run yet.\n"
    rows = {row.labels["method"]: row for row in standings(read_results(HERE / folder))}
    aims = {name: rows[name] for name in YARDSTICKS if name in rows}
    head = ["", "averaged", "mean agent", "worst agent", *(f"mean, worst - {name}" for name in aims)]
    head += ["MB per agent", "of DPSGD's", "simulated s", "lr", "momentum", "trials", "seeds"]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for name, row in rows.items():
        plain = rows.get(f"{name.partition(':')[0]}: DPSGD")
        gaps = [
            f"{row.mean_agent.mean - aim.mean_agent.mean:+.1f}, {row.worst_agent.mean - aim.mean_agent.mean:+.1f}"
            for aim in aims.values()
        ]
        share = f"{row.megabytes / plain.megabytes:.2f}" if plain else ""
        lr, momentum, _, averaged, mean, worst, sent, time, trials, seeds = as_cells(row)
        lines.append([name, averaged, mean, worst, *gaps, sent, share, time, lr, momentum, trials, seeds])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def filled(text: str) -> str:
    """The page with all tables made again, each between two comments that name it."""
    made = {
        "left": left,
        "boundary": boundary,
        "counts": counts,
        "tuned-digits": lambda: tuned("open-problem"),
        "tuned-mnist": lambda: tuned("open-problem-mnist"),
        "tuned-cnn": lambda: tuned("open-problem-cnn"),
    }
    return re.sub(
        r"<!-- (left|boundary|counts|tuned-digits|tuned-mnist|tuned-cnn) -->\n.*?<!-- end -->",
        lambda at: f"<!-- {at[1]} -->\n{made[at[1]]()}<!-- end -->",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
