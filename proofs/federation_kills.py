"""Kill (-9) sites of federations at random moments, start them again, and repeat every model from the journals."""

import argparse
import json
import random
import shutil
import tempfile
import time
from pathlib import Path

from sites import Forked, federation, journals, log_of, repeated

from crossgrad.federation.journal import JOURNAL, Began, Started

CNN = {"model": "cnn", "steps": 40}  # the paper's
CASES = [  # each graph with 5 and with 10 sites, each with a small MLP and with the paper's CNN
    {"sites": 5, "graph": "ring", "algorithm": "cga"},
    {"sites": 5, "graph": "bipartite", "algorithm": "edm"},
    {"sites": 5, "graph": "fully-connected", "algorithm": "swarm"},
    {"sites": 10, "graph": "ring", "algorithm": "gradient-tracking"},
    {"sites": 10, "graph": "bipartite", "algorithm": "qg-dsgdm"},
    {"sites": 10, "graph": "fully-connected", "algorithm": "sgp"},
    {"sites": 5, "graph": "ring", "algorithm": "compcga", **CNN},
    {"sites": 5, "graph": "bipartite", "algorithm": "cga", **CNN},
    {"sites": 5, "graph": "fully-connected", "algorithm": "cga", **CNN},
    {"sites": 10, "graph": "ring", "algorithm": "cga", **CNN},
    {"sites": 10, "graph": "bipartite", "algorithm": "cga-mean", **CNN},
    {"sites": 10, "graph": "fully-connected", "algorithm": "dpmsgd", **CNN},
]
MNIST = [  # the paper's CNN on its own data, which is slow
    {"sites": 5, "graph": graph, "algorithm": "cga", "model": "cnn", "data": "mnist", "steps": 15}
    for graph in ("ring", "fully-connected")
]


def carry_out(case, kills, seed, patience):
    """One run with so many kills."""
    draw, case = random.Random(seed), dict(case)
    sites = case.pop("sites")
    folder = Path(tempfile.mkdtemp(prefix="federation-"))
    rehearsal = Forked.prepare(federation(sites, seed=seed, **case), folder)
    names = [entry.name for entry in rehearsal.federation.sites]
    for name in names:
        rehearsal.start(name)
    began, done, dead, under_way = time.monotonic(), 0, {}, False
    while time.monotonic() - began < patience:
        for name in [name for name, when in dead.items() if time.monotonic() > when]:
            del dead[name]
            rehearsal.start(name)
        alive = [name for name in names if name not in dead and rehearsal.processes[name].poll() is None]
        if not alive and not dead:
            break
        under_way = under_way or all(steps_begun(rehearsal, name) >= 3 for name in names)
        if alive and done < kills and under_way:
            victim = draw.choice(alive)
            rehearsal.kill(victim)
            dead[victim] = time.monotonic() + draw.choice([0.0, 0.3, 2.0])
            done += 1
        time.sleep(draw.uniform(0.2, 1.5))
    hung = [name for name in names if rehearsal.processes[name].poll() is None]
    rehearsal.stop()
    result = {"case": {"sites": sites, **case}, "seed": seed, "kills": done, "hung": hung}
    result["seconds"] = round(time.monotonic() - began, 1)
    if not hung:
        result |= judged(rehearsal)
    if result.get("same") == sites:
        shutil.rmtree(folder)
    else:
        result["folder"] = str(folder)
        print(log_of(rehearsal, names[0])[-2000:])
    return result


def steps_begun(rehearsal, name):
    path = rehearsal.run_folder(name) / JOURNAL
    return path.read_bytes().count(b'"began"') if path.exists() else 0


def judged(rehearsal):
    found, said = repeated(rehearsal), journals(rehearsal)
    events = [event for each in said.values() for event in each]
    alone = [event for event in events if isinstance(event, Began) and not event.partners]
    return {
        "finished": sum(each.journal is not None for each in found),
        "same": sum(each.same and each.journal is not None for each in found),
        "restarts": sum(isinstance(event, Started) for event in events) - len(found),
        "steps": sum(each.steps for each in found),
        "steps_alone": len(alone),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--each", type=int, default=9, help="kills of a run")
    parser.add_argument("--patience", type=float, default=240, help="seconds for a run")
    parser.add_argument("--mnist", action="store_true", help="the paper's CNN on MNIST instead of digits")
    parser.add_argument("--minutes", type=float, default=120, help="after which no further run is begun")
    parser.add_argument("--out", type=Path, help="written after every run")
    options = parser.parse_args()
    cases = MNIST if options.mnist else CASES
    runs, done, until = [], 0, time.monotonic() + 60 * options.minutes
    while done < options.kills and time.monotonic() < until:
        number = len(runs)
        runs.append(carry_out(cases[number % len(cases)], options.each, number, options.patience))
        done += runs[-1]["kills"]
        print(json.dumps(runs[-1]), flush=True)
        if options.out:
            options.out.write_text(json.dumps(summed(runs), indent=1) + "\n")
        if not runs[-1]["kills"]:
            break
    print({key: value for key, value in summed(runs).items() if key != "each"})


def summed(runs):
    return {
        "kills": sum(run["kills"] for run in runs),
        "runs": len(runs),
        "sites": sum(run["case"]["sites"] for run in runs),
        "finished": sum(run.get("finished", 0) for run in runs),
        "same": sum(run.get("same", 0) for run in runs),
        "hung": sum(len(run["hung"]) for run in runs),
        "each": runs,
    }


if __name__ == "__main__":
    main()
