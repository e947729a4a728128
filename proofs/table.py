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
            *repeated(folder / "sweeps.json"),
        ),
        (
            "Nothing outside a run's folder is touched; changed data and records are refused",
            "`pytest tests/runs`:",
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
    rows += limits(folder)
    lines = ["| promise | how it is proved | figure |", "|---|---|---|"]
    cells = [(promise, f"{command} {done}", figure) for promise, command, done, figure in rows]
    cells += [(promise, f"{command}: {done}", figure) for promise, command, done, figure in federations(folder)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n"


def repeated(path: Path) -> tuple[str, str]:
    """How often each kind of disturbance was made, and how often all held."""
    kinds = json.loads(path.read_text())["kinds"] if path.exists() else {}
    made = {kind: part for kind, part in kinds.items() if "times" in part}
    words = [f"{part['times']} {kind}" for kind, part in made.items()]
    words += [f"{kind} could not be tried here" for kind in kinds if kind not in made]
    held, times = (sum(part[what] for part in made.values()) for what in ("held", "times"))
    return (", ".join(words), f"{held} of {times} held") if made else ("", "not measured on this version")


def limits(folder: Path) -> list[tuple[str, str, str, str]]:
    """The rows of launches, the clock, memory and rights, as far as they have been proved."""
    rows = []
    if (folder / "launches.json").exists():
        rows.append(
            (
                "What torchrun started ends, and resumes with every agent's bits, whatever is killed or stopped",
                "`python proofs/launches.py`:",
                *repeated(folder / "launches.json"),
            )
        )
    if (folder / "hostile_peers.json").exists():
        peers = json.loads((folder / "hostile_peers.json").read_text())
        rows.append(
            (
                "A process that sends something wrong is named, and the others end with what they saved",
                "`python proofs/hostile_peers.py`:",
                f"one of three processes, in each of these ways: {', '.join(peers['modes'])}",
                f"{peers['held']} of {len(peers['modes'])} held",
            )
        )
    if (folder / "clock.json").exists():
        clock = json.loads((folder / "clock.json").read_text())
        rows.append(
            (
                "A clock that goes backwards changes nothing but the names of folders",
                "`python proofs/clock.py`:",
                f"{clock['times']} each: {', '.join(clock['held'])}",
                f"{sum(clock['held'].values())} of {clock['times'] * len(clock['held'])} held; the clock went back "
                f"{clock['times the clock went back']} times",
            )
        )
    if (folder / "memory.json").exists():
        memory = json.loads((folder / "memory.json").read_text())
        ways = memory["ways"]
        rows.append(
            (
                "A cell that takes all memory is named; the others go on with the same bits",
                "`python proofs/memory.py`:",
                f"sweeps with a cell that grows without end, under a limit of the processes (RLIMIT_DATA) and in a "
                f"cgroup ({memory['cgroup']})",
                f"{sum(way['held'] for way in ways.values())} of {memory['times'] * len(ways)} held",
            )
        )
    if (folder / "permissions.json").exists():
        rights = json.loads((folder / "permissions.json").read_text())
        rows.append(
            (
                "Missing rights end in a sentence, or a pause; given back, the run goes on with the same bits",
                "`python proofs/permissions.py`:",
                f"commands of a user who is not root: {', '.join(rights['cases'])}",
                f"{rights['held']} of {len(rights['cases'])} held",
            )
        )
    return rows


def federations(folder: Path) -> list[tuple[str, str, str, str]]:
    """The rows of sites between organisations, as far as they have been proved."""
    rows = []
    if (folder / "federation_kills.json").exists():
        kills = json.loads((folder / "federation_kills.json").read_text())
        rows.append(
            (
                "A killed site comes back, nobody hangs, and journals repeat every model",
                "`python proofs/federation_kills.py`",
                f"{kills['kills']} kills (-9) of sites at random moments of {kills['runs']} federations of 5 and 10 "
                "sites with mutual TLS, on ring, bipartite and full graphs, MLP and the paper's CNN on digits; each "
                "started again",
                f"{kills['hung']} hung; {kills['same']} of {kills['sites']} final models repeated from the journals "
                "bit by bit",
            )
        )
    if (folder / "federation_bits.json").exists():
        bits = json.loads((folder / "federation_bits.json").read_text())
        rows.append(
            (
                "Sites without faults come to the bits of the simulation",
                "`python proofs/federation_bits.py`",
                f"every algorithm on ring, bipartite and full graphs between {bits['sites']} sites on the loopback "
                f"interface, encrypted, {bits['steps']} steps, without faults",
                f"{bits['same']} of {bits['runs']} runs end with the bits of the simulation at every site; "
                f"{bits['refused']} cases are refused, as the algorithm keeps copies of its neighbours' models",
            )
        )
    if (folder / "federation_intruders.json").exists():
        found = json.loads((folder / "federation_intruders.json").read_text())
        tried = found["tried"]
        rows.append(
            (
                "No stranger gets in while a site trains",
                "`python proofs/federation_intruders.py`",
                f"{found['seconds of attack']:.0f} s of attack on a site's port while it trains a CNN with another: "
                f"{found['kinds']} kinds of bad certificate, greeting and message, {tried.get('garbage', 0):,} "
                f"connections of garbage, {tried.get('slow-loris', 0):,} half handshakes; phases of attack and of "
                "peace in turn",
                f"none got in; {found['sites alive']} of 2 sites alive, the link was lost "
                f"{found['times that s1 was lost']} times; {_slowed(found)}",
            )
        )
    if (folder / "federation_faults.json").exists():
        faults = json.loads((folder / "federation_faults.json").read_text())
        stop, halves = faults["stop"], faults["halves"]
        gone = [faults[f"gone, {how}"] for how in ("iid", "by class")]
        accuracies = "; ".join(
            f"{how}: " + ", ".join(f"{what} {100 * found['accuracy']:.1f} %" for what, found in each.items())
            for how, each in zip(("IID", "by class"), gone, strict=True)
        )
        links = [f"{what} {faults[what]['s per step']} s" for what in ("cable", "100 Mbit/s", "50 ms each way")]
        lost_after, command = f"{faults['lost after, s']:.0f}", "`python proofs/federation_faults.py`"
        rows += [
            (
                "A site that hangs is left out in time, and comes back",
                f"{command} --only stop",
                f"one of 4 sites on a ring stopped (SIGSTOP) for {stop['stopped, s']:.0f} s; it counts as lost after "
                f"{lost_after} s",
                f"the others went on after {stop['others went on after, s']} s; {stop['same']} of 4 models repeated "
                "bit by bit",
            ),
            (
                "Two halves of a cut network go on apart, and join again",
                f"{command} --only halves",
                f"a ring of 6 in two network namespaces whose cable is cut for {halves['cut, s']:.0f} s",
                f"{halves['went on apart']} of 6 went on apart; {halves['links that were used again']} of 2 cut links "
                f"were used again, both {halves['both again after, s']} s after it was mended; {halves['same']} of 6 "
                "models repeated bit by bit",
            ),
            (
                "Sites that are gone for good do not stop the others",
                f"{command} --only 'gone, iid', --only 'gone, by class'",
                "5 of 10 sites killed, beside runs with all and without them",
                f"accuracy of the five that are left, {accuracies}",
            ),
            (
                "Slow links slow training, and do not end it",
                f"{command} --only 'cable', '100 Mbit/s', '50 ms each way'",
                "two sites with the paper's CNN: a plain cable, 100 Mbit/s by tc (tbf), and a forwarder that is late",
                f"a step takes: {', '.join(links)}",
            ),
        ]
    if (folder / "federation_joins.json").exists():
        joins = json.loads((folder / "federation_joins.json").read_text())
        rows.append(
            (
                "Sites are added to a federation at work",
                "`python proofs/federation_joins.py`",
                f"{joins['added']} sites added to {joins['runs']} federations on ring, bipartite and full graphs, MLP "
                "and the paper's CNN, by a signed file that is given to one site; "
                f"{joins['kills']} kills (-9) meanwhile",
                f"{joins['came together']} of {joins['added']} times all took part with all their neighbours, the "
                f"slowest after {joins['slowest, s']} s; {joins['models taken over']} models taken over; "
                f"{joins['same']} of {joins['sites']} models repeated bit by bit",
            )
        )
    return rows


def _slowed(found: dict) -> str:
    """What an attack costs the site in a second, and how much its training was slowed."""
    if "share of a core, %" not in found:  # figures of an earlier form of the proof
        return "how much it slowed training has not been measured on this version"
    steps = found["steps per second"]
    return (
        f"the attack takes {found['share of a core, %']} % of a core of the site, so one that has a core to itself is "
        f"slowed by {found['slowed by, %']} %; here, with the attackers and other work on the same two cores, "
        f"{steps['in peace']} steps a second in peace and {steps['attacked']} under attack"
    )


def main() -> None:
    page = DOCS / "reliability.md"
    before, _, _ = page.read_text().partition(HERE)
    page.write_text(before + HERE + "\n" + figures(DOCS / "reliability"))


if __name__ == "__main__":
    main()
