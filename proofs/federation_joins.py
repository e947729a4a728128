"""Sites that are added to a federation at work, by a signed file of a higher version, while other sites are killed."""

import argparse
import dataclasses
import json
import random
import shutil
import tempfile
import time
from pathlib import Path

from sites import Forked, federation, journals, log_of, repeated

from crossgrad.federation.authority import install, make_request, sign_request
from crossgrad.federation.file import SiteEntry
from crossgrad.federation.journal import JOURNAL, Adopted, Began, Started
from crossgrad.federation.rehearsal import FILE, free_ports
from crossgrad.federation.versions import publish
from crossgrad.federation.written import to_toml

CASES = [
    {"sites": 4, "graph": "ring", "algorithm": "cga"},
    {"sites": 4, "graph": "bipartite", "algorithm": "gradient-tracking"},
    {"sites": 4, "graph": "fully-connected", "algorithm": "qg-dsgdm"},
    {"sites": 2, "graph": "ring", "algorithm": "cga", "model": "cnn", "batch_size": 128},
]
WAIT = 180.0  # seconds within which all must have come together, on a machine that has other work


class Growing(Forked):
    """Every site has a file of its own, so that only one of them is given the later version."""

    def file_of(self, site):
        return self.folder / "sites" / site / FILE

    def hand_out(self, *names):
        for name in names:
            self.file_of(name).write_text(to_toml(self.federation))

    def grow(self, name):
        """A federation with a further site, signed; its file is given to the newcomer and the first site only."""
        old, folder = self.federation, self.folder
        entry = SiteEntry(name, f"127.0.0.1:{free_ports(1)[0]}")
        experiment = dataclasses.replace(old.experiment, agents=old.experiment.agents + 1)
        self.federation = dataclasses.replace(
            old, version=old.version + 1, sites=(*old.sites, entry), experiment=experiment,
            graph=experiment.build_graph(),
        )  # fmt: skip
        request = make_request(folder / "sites" / name, name)
        install(folder / "sites" / name, sign_request(folder / "authority", request, name), folder / "authority")
        self.hand_out(name)
        signature = publish(folder / "authority", self.file_of(name))
        first = self.file_of(old.sites[0].name)
        first.with_name(signature.name).write_bytes(signature.read_bytes())
        self.hand_out(old.sites[0].name)


def steps(rehearsal, name):
    path = rehearsal.run_folder(name) / JOURNAL
    return path.read_bytes().count(b'"began"') if path.exists() else 0


def together(rehearsal):
    """Whether every site's last step was with all its neighbours."""
    if not all((rehearsal.run_folder(entry.name) / JOURNAL).exists() for entry in rehearsal.federation.sites):
        return False
    for agent, events in journals(rehearsal).items():
        began = [event for event in events if isinstance(event, Began)]
        near = set(rehearsal.federation.neighbours(agent))
        if not began or {peer for peer, _, _ in began[-1].partners} != near:
            return False
    return True


def until(condition, seconds):
    """Seconds until it holds; None if it does not."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            return None
        time.sleep(0.2)
    return round(time.monotonic() - began, 1)


def grown(rehearsal, names, added, kills, draw):
    """Start all, and add one site after the other; how long it took, and how many were killed."""
    for name in names:
        rehearsal.start(name)
    waited, killed = [until(lambda: all(steps(rehearsal, name) >= 5 for name in names), WAIT)], 0
    for number in range(added):
        rehearsal.grow(f"n{number}")
        rehearsal.start(f"n{number}")
        for _ in range(kills):
            time.sleep(draw.uniform(0.1, 1.0))
            victim = draw.choice(names)
            rehearsal.kill(victim)
            time.sleep(draw.choice([0.0, 0.3, 1.0]))
            rehearsal.start(victim)
            killed += 1
        names.append(f"n{number}")
        waited.append(until(lambda: together(rehearsal), WAIT))
    time.sleep(1)
    return waited, killed


def carry_out(case, added, kills, seed):
    """One federation that grows by so many sites, one after the other, while others are killed and come back."""
    draw, case = random.Random(seed), dict(case)
    sites = case.pop("sites")
    folder = Path(tempfile.mkdtemp(prefix="federation-"))
    rehearsal = Growing.prepare(federation(sites, seed=seed, steps=10**6, lost_after=5, **case), folder)
    names = [entry.name for entry in rehearsal.federation.sites]
    rehearsal.hand_out(*names)
    try:
        waited, killed = grown(rehearsal, names, added, kills, draw)
    finally:
        rehearsal.stop()
    statuses = rehearsal.wait(WAIT)
    said, found = journals(rehearsal), repeated(rehearsal)
    versions = [[event.version for event in said[agent] if isinstance(event, Started)][-1] for agent in said]
    result = {
        "case": {"sites": sites, **case}, "seed": seed, "added": added, "kills": killed, "sites": len(names),
        "all with all neighbours after, s": waited[1:], "last versions": versions,
        "models taken over": sum(isinstance(event, Adopted) for agent in said for event in said[agent]),
        "begun anew": sum(isinstance(e, Started) and e.epoch and not e.step for agent in said for e in said[agent]),
        "stopped": sum(status == 143 for status in statuses.values()),
        "same": sum(each.same and each.journal is not None for each in found),
        "steps": sum(each.steps for each in found),
    }  # fmt: skip
    if result["same"] == len(names) and None not in waited:
        shutil.rmtree(folder)
    else:
        result["folder"] = str(folder)
        print(log_of(rehearsal, names[0])[-2000:])
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--added", type=int, default=2, help="sites, to each federation")
    parser.add_argument("--kills", type=int, default=2, help="while one is added")
    parser.add_argument("--out", type=Path, help="written after every run")
    options = parser.parse_args()
    runs = []
    for number in range(options.runs):
        kills = options.kills if number % 2 else 0
        runs.append(carry_out(CASES[number % len(CASES)], options.added, kills, number))
        print(json.dumps(runs[-1]), flush=True)
        if options.out:
            options.out.write_text(json.dumps(summed(runs), indent=1) + "\n")


def summed(runs):
    waits = [each for run in runs for each in run["all with all neighbours after, s"]]
    return {
        "runs": len(runs),
        "added": sum(run["added"] for run in runs),
        "kills": sum(run["kills"] for run in runs),
        "sites": sum(run["sites"] for run in runs),
        "same": sum(run["same"] for run in runs),
        "models taken over": sum(run["models taken over"] for run in runs),
        "begun anew": sum(run["begun anew"] for run in runs),
        "came together": sum(each is not None for each in waits),
        "slowest, s": max((each for each in waits if each is not None), default=None),
        "each": runs,
    }


if __name__ == "__main__":
    main()
