"""Federations without faults, over encrypted links on the loopback interface: the bits of the simulation."""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import torch
from sites import Forked, federation, repeated

from crossgrad.algorithms import ALGORITHMS
from crossgrad.experiments.config import ConfigError
from crossgrad.federation.training import digest_of

GRAPHS = ("ring", "bipartite", "fully-connected")
ROUNDS = [  # several messages, or several gradients, in a step
    ("edm", "ring", "{ rounds = 3 }"),
    ("dpmsgd", "ring", "{ rounds = 3, chebyshev = true }"),
    ("gradient-tracking", "bipartite", "{ local_steps = 2 }"),
]
SITES, STEPS, PATIENCE = 4, 8, 120


def compared(algorithm, graph, gossip="{}"):
    """How many sites came to the simulation's bits, or why the algorithm is refused."""
    chosen = {"graph": graph, "algorithm": algorithm, "gossip": gossip}
    try:
        made = federation(SITES, **chosen, partition="class", steps=STEPS, lost_after=20)
    except ConfigError as error:
        return {"refused": str(error)}
    folder = Path(tempfile.mkdtemp(prefix="federation-"))
    rehearsal = Forked.prepare(made, folder)
    for entry in rehearsal.federation.sites:
        rehearsal.start(entry.name)
    statuses = rehearsal.wait(PATIENCE)
    simulated = rehearsal.federation.experiment.start()
    for _ in simulated:
        pass
    found = repeated(rehearsal)
    shutil.rmtree(folder)
    return {
        "finished": sum(status == 0 for status in statuses.values()),
        "same": sum(each.journal == digest_of(simulated.state.x[each.agent]) for each in found),
        "repeated": sum(each.same for each in found),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "cases", nargs="*", metavar="ALGORITHM:GRAPH[:GOSSIP]", help="default: all algorithms on all graphs"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)  # as each site has, or the last bits differ
    cases = [tuple(case.split(":")) for case in options.cases]
    cases = cases or [(algorithm, graph) for graph in GRAPHS for algorithm in ALGORITHMS] + ROUNDS
    each = {}
    for case in cases:
        each[", ".join(case)] = found = compared(*case)
        print(f"{', '.join(case)}: {found}", flush=True)
    runs = [found for found in each.values() if "refused" not in found]
    summary = {"sites": SITES, "steps": STEPS, "runs": len(runs), "refused": len(each) - len(runs)}
    summary["same"] = sum(found["same"] == found["finished"] == found["repeated"] == SITES for found in runs)
    if options.out:
        options.out.write_text(json.dumps(summary | {"each": each}, indent=1) + "\n")


if __name__ == "__main__":
    main()
