"""Put targets, figures and profiles, from benchmarks/results, into targets.md there and into docs/performance.md."""

import json
from pathlib import Path
from typing import NamedTuple

import keeping

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


class Target(NamedTuple):
    """What was wanted, and what came of it: the worst of several cases, and in how many it was met."""

    what: str
    wanted: str
    found: list[float]
    bound: float
    at_least: bool = False
    digits: int = 2

    def row(self) -> list[str]:
        met = [value >= self.bound if self.at_least else value <= self.bound for value in self.found]
        least, most = (f"{edge:.{self.digits}f}" for edge in (min(self.found), max(self.found)))
        said = "met" if all(met) else "missed" if not any(met) else f"met in {sum(met)} of {len(met)} cases"
        return [self.what, self.wanted, least if least == most else f"{least} to {most}", said]


def targets(folder: Path) -> list[Target]:
    """All targets, from the files that the benchmarks keep."""
    gradients, growth, processes = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("gradients", "growth", "distributed")
    )
    alone = [row for row in gradients["large"] if row["threads"] == 1]
    rows = []
    kinds = dict.fromkeys(row["case"].rsplit(",", 1)[0] for row in alone)  # a model and its batch
    bounds = {"cnn 32x32": 0.70, "cnn 28x28": 0.80, "vgg11 32x32": 0.95}
    for kind in sorted(kinds, key=lambda kind: (kind.split(",")[0], -int(kind.split()[-1]))):
        those, bound = [row for row in alone if row["case"].startswith(f"{kind},")], bounds[kind.split(",")[0]]
        found = [row["step / (E t1)"] for row in those]
        rows.append(Target(f"CGA step / (E t1), {kind}", f"<= {bound:.2f}", found, bound))
        best = [row["step / (E bare)"] for row in those]
        rows.append(Target(f"CGA step / (E best bare passes), {kind}", "<= 1.05", best, 1.05))
    rows += _shared(gradients["large"], processes)
    tiny = [row for row in gradients["tiny"] if row["case"].startswith("mlp") and "full of 40" in row["case"]]
    rows.append(Target("tiny MLP, loop / one pass", ">= 6", [row["loop / batched"] for row in tiny], 6, True, 1))
    compiled = [row["loop / compiled"] for row in tiny if "loop / compiled" in row]
    if compiled:
        rows.append(Target("tiny MLP, loop / compiled pass", ">= 10", compiled, 10, True, 1))
    for batch in (128, 32):
        small = [
            100 * sum(row["shares"][part] for part in ("QP and Gram", "mixing", "codec", "data"))
            for row in alone
            if row["case"].startswith("cnn") and f"batch {batch}," in row["case"]
        ]
        name = f"QP, mixing, codec and data, % of a CNN step, batch {batch}"
        rows.append(Target(name, "<= 3", small, 3, digits=1))
    return rows + _lazy(folder) + _packing(folder) + _growth(growth)


def _lazy(folder: Path) -> list[Target]:
    """Steps from a data set that is read when needed, where they were measured."""
    file = folder / "lazy.json"
    found = [json.loads(file.read_text())["ratio"]] if file.exists() else []
    name = "CNN step, lazy data set with augmentation and 2 workers / in memory"
    return [Target(name, "<= 1.10", found, 1.10)] if found else []


def _packing(folder: Path) -> list[Target]:
    """Packing and unpacking of compressed models, where it was measured."""
    file = folder / "compression.json"
    found = json.loads(file.read_text())["rows"] if file.exists() else []
    kinds = dict.fromkeys((row["codec"], row["shape"][1], row["batch"]) for row in found)
    name = "packing and unpacking, % of a CNN step, {}x{}, batch {}, {}".format
    return [
        Target(name(size, size, batch, codec), "<= 3", [100 * row["share"] for row in found if
               (row["codec"], row["shape"][1], row["batch"]) == (codec, size, batch)], 3)
        for codec, size, batch in kinds
    ]  # fmt: skip


def _shared(large: list[dict], processes: dict) -> list[Target]:
    """Two threads, or two processes, against one."""
    rows = []
    both = {(row["case"], row["threads"]): row["step"] for row in large}
    gains = [both[case, 1] / seconds for (case, threads), seconds in both.items() if threads == 2 and (case, 1) in both]
    if gains:
        rows.append(Target("speed of 2 threads over 1", ">= 1.7", gains, 1.7, True))
    if gain := processes.get("speed of 2 x 1 over 1 x 1"):
        rows.append(Target("speed of 2 processes over 1", ">= 1.7", [gain], 1.7, True))
    return rows


def _growth(growth: dict) -> list[Target]:
    rings = {int(agents): one for agents, one in growth["growth"].items()}
    steps = {agents: one["step"] / agents for agents, one in rings.items()}
    first, *others = sorted(rings)
    slowest = max(steps[agents] for agents in others) / min(steps[agents] for agents in others)
    more = {n: (rings[n]["peak"] - rings[first]["peak"]) / (n - first) for n in others if n >= 1000}
    rows = [
        Target("time per agent, 100 to 10,000 agents, largest / least", "<= 1.20", [slowest], 1.2),
        Target("time per agent, 10 agents / 10,000", "<= 1.20", [steps[first] / steps[others[-1]]], 1.2),
        Target("bytes per agent, 10,000 agents / 1,000", "<= 1.20", [more[others[-1]] / more[1000]], 1.2),
    ]
    for name, one in growth["peaks"].items():
        limit = one["limit"] / 1e9
        rows.append(Target(f"peak in GB, CGA, {name}", f"< {limit:.0f}", [one["peak"] / 1e9], limit))
        off = 100 * abs(one["predicted"] / one["peak"] - 1)
        rows.append(Target(f"its prediction is off by, %, {name}", "<= 25", [off], 25, digits=0))
    gossip = [one["ratio"] for one in growth["overhead"] if one["algorithm"] in ("dpsgd", "dpmsgd", "sgp")]
    others_ = [one["ratio"] for one in growth["overhead"] if one["algorithm"] not in ("dpsgd", "dpmsgd", "sgp")]
    rows.append(Target("step with free gradients / (Pi @ X), gossip", "<= 3", gossip, 3, digits=1))
    rows.append(Target("the same, EDM and CGA (with its QP)", "<= 3", others_, 3, digits=1))
    begun = growth["start-up"]
    rows.append(Target("`import crossgrad`, s", "< 1", [begun["import crossgrad"]], 1))
    rows.append(Target("`crossgrad --help`, s", "< 1", [begun["crossgrad --help"]], 1))
    return rows


def figures(folder: Path) -> str:
    """The table of targets."""
    gradients = json.loads((folder / "gradients.json").read_text())
    head, rows = ["what", "wanted", "measured", ""], [target.row() for target in targets(folder)]
    cases = f"{len(gradients['large'])} cases of large models"
    return f"On {gradients['machine']}; {cases}.\n\n" + keeping.table(head, rows)


def page(folder: Path, old: str) -> str:
    """The page of speed and memory with the figures of a folder."""
    for what, text in (("figures", figures(folder)), ("profiles", (folder / "profiles.md").read_text())):
        begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->\n"
        before, rest = old.split(begin)
        _, after = rest.split(end)
        old = f"{before}{begin}\n{text.strip()}\n\n{end}{after}"
    return old


def main() -> None:
    text = figures(keeping.RESULTS)
    (keeping.RESULTS / "targets.md").write_text(text)
    PAGE.write_text(page(keeping.RESULTS, PAGE.read_text()))
    print(text)


if __name__ == "__main__":
    main()
