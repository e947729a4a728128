"""Put the figures of docs/reliability/*.json into docs/reliability.md, after the line "Each is a command"."""

import json
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
HERE = "<!-- figures -->\n"


def figures(folder: Path) -> str:
    """The table of what was proved, from the files of the proofs."""
    kills, restarts, writers, fuzz = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("kills", "restarts", "writers", "fuzz")
    )
    made = folder / "sweeps.json"  # takes a quarter of an hour
    sweeps = json.loads(made.read_text()) if made.exists() else {}
    disturbed = {kind: part for kind, part in sweeps.items() if isinstance(part, dict)}
    targets = fuzz["targets"].values()
    least = min(target["inputs"] for target in targets)
    slowest, largest = (max(target[what] for target in targets) for what in ("slowest_seconds", "peak_megabytes"))
    slowest_kill, slowest_stop = (restarts[f"slowest recovery from a {what}, s"] for what in ("kill", "stop"))
    rows = [
        (
            "A killed run resumes with the same bits",
            "`python proofs/kills.py`:",
            f"{kills['kills']} kills (-9) at random moments of runs of all algorithms in 1 to 3 processes "
            f"({kills['of one process among several']} of one process among several, {kills['while resuming']} while "
            "resuming), each resumed, often by another number of processes",
            f"{kills['final states equal']} of {kills['runs']} final states the same bits",
        ),
        (
            "A lost process is noticed, and all restart",
            "`python proofs/restarts.py`:",
            f"{restarts['kills']} kills and {restarts['stops']} SIGSTOPs of a process among {restarts['processes']} "
            "under torchrun",
            f"{restarts['recovered']} recovered, final state the same bits: "
            f"{'yes' if restarts['final states equal'] else 'no'}; slowest recovery from a kill {slowest_kill} s, "
            f"from a stop {slowest_stop} s",
        ),
        (
            "Damaged or hostile files end in a sentence",
            "`python proofs/fuzz.py`:",
            f"{least:,} spoilt inputs for each of {len(targets)} readers: {', '.join(fuzz['targets'])}",
            f"{sum(target['failures'] for target in targets)} failures; slowest input {slowest:.1f} s, largest memory "
            f"{largest:.0f} MB",
        ),
        (
            "A full disk pauses a run",
            "`pytest tests/cli/test_interruptions.py -k disk`:",
            "disks that are full from the start, become full or read-only, and a stop while paused",
            "in `make test`",
        ),
        (
            "A sweep survives what goes wrong in one cell, worker or disk; the other cells have the same bits",
            "`python proofs/sweeps.py`:",
            ", ".join(disturbed)
            or "failing, damaged and hanging cells, a full disk, another version, SIGTERM to the group",
            f"{sum(part['held'] for part in disturbed.values())} of {sweeps['times'] * len(disturbed)} held"
            if disturbed
            else "not measured on this version",
        ),
        (
            "Nothing outside a run's folder is touched; changed data and records are refused",
            "`pytest tests/runs tests/test_checkpoint.py`:",
            "links and pipes in place of each file, changed records, experiment, samples and test set",
            "in `make test`",
        ),
        (
            "Runs in one folder do not disturb each other",
            "`python proofs/writers.py`:",
            f"{writers['processes at once']} processes that write {writers['runs']} runs into one folder at once",
            f"{writers['folders']} folders, {writers['final states equal']} final states the same bits; of two that "
            f"resume one run, {writers['of two that resume one run at once, refused']} refused",
        ),
    ]
    lines = ["| promise | how it is proved | figure |", "|---|---|---|"]
    cells = [(promise, f"{command} {done}", figure) for promise, command, done, figure in rows]
    cells += [
        ("Sites of a federation survive", f"{command}: {done}", figure) for command, done, figure in federations(folder)
    ]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n"


def federations(folder: Path) -> list[tuple[str, str, str]]:
    """The rows of sites between organisations, as far as they have been proved."""
    rows = []
    if (folder / "federation_kills.json").exists():
        kills = json.loads((folder / "federation_kills.json").read_text())
        rows.append(
            (
                "`python proofs/federation_kills.py`",
                f"{kills['kills']} kills (-9) of sites at random moments of {kills['runs']} federations of 5 and 10 "
                "sites with mutual TLS, on ring, bipartite and full graphs, MLP and CNN on digits; each started again",
                f"{kills['hung']} hung; {kills['same']} of {kills['sites']} final models repeated from the journals "
                "bit by bit",
            )
        )
    if (folder / "federation_faults.json").exists():
        faults = json.loads((folder / "federation_faults.json").read_text())
        stop, halves = faults["stop"], faults["halves"]
        gone = [faults[f"gone, {how}"] for how in ("iid", "by class")]
        rows.append(
            (
                "`python proofs/federation_faults.py`",
                f"a site stopped (SIGSTOP) for {stop['stopped, s']:.0f} s; a ring of 6 cut into halves for "
                f"{halves['cut, s']:.0f} s; 5 of 10 sites killed for good",
                f"others went on after {stop['others went on after, s']} s (lost after {faults['lost after, s']:.0f}); "
                f"{halves['links that were used again']} of 2 cut links used again; {stop['same']} of 4 and "
                f"{halves['same']} of 6 models repeated bit by bit; accuracy of the five that are left "
                + " and ".join(f"{100 * each['10 sites']:.1f} %" for each in gone)
                + " (IID, one class each), beside "
                + " and ".join(f"{100 * each['5 sites']:.1f} %" for each in gone)
                + " of five that were always alone",
            )
        )
    return rows


def main() -> None:
    page = DOCS / "reliability.md"
    before, _, _ = page.read_text().partition(HERE)
    page.write_text(before + HERE + "\n" + figures(DOCS / "reliability"))


if __name__ == "__main__":
    main()
