"""Sites that hang, links that are cut, a network that falls into halves, and sites that are gone for good."""

import argparse
import json
import os
import signal
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from namespaces import Namespaces
from sites import Forked, behind, federation, repeated

from crossgrad.federation.journal import JOURNAL, Began, read_journal
from crossgrad.records.file import read_records

LOST_AFTER = 3.0  # seconds
LATENCY = 0.05  # seconds each way
PATIENCE = 900.0
REJOIN = 120.0  # seconds in which halves must have found one another
ACROSS = ((2, 3), (0, 5))  # links of a ring of six between its halves


def begun(rehearsal, sites=None):
    """Start the sites, or the first ones of them, and wait until they train."""
    names = [entry.name for entry in rehearsal.federation.sites][:sites]
    for name in names:
        rehearsal.start(name)
    until = time.monotonic() + 120
    while any(steps(rehearsal, name) < 5 for name in names):
        if time.monotonic() > until:
            raise TimeoutError("the sites do not begin")
        time.sleep(0.1)
    return names


def steps(rehearsal, name):
    path = rehearsal.run_folder(name) / JOURNAL
    return path.read_bytes().count(b'"began"') if path.exists() else 0


def begun_steps(rehearsal, agent):
    name = rehearsal.federation.sites[agent].name
    return [event for event in read_journal(rehearsal.run_folder(name) / JOURNAL) if isinstance(event, Began)]


def ended(rehearsal):
    statuses = rehearsal.wait(PATIENCE)
    found = repeated(rehearsal)
    return {"finished": sum(status == 0 for status in statuses.values()), "same": sum(each.same for each in found)}


def prepare(sites, **changes):
    made = federation(sites, lost_after=LOST_AFTER, **changes)
    return Forked.prepare(made, Path(tempfile.mkdtemp(prefix="federation-")))


def hung(seconds):
    """A site is stopped for a while; the others go on, and it comes back."""
    rehearsal = prepare(4, graph="ring", algorithm="cga", steps=int(150 * seconds))
    names = begun(rehearsal)
    os.kill(rehearsal.processes[names[1]].pid, signal.SIGSTOP)
    at = steps(rehearsal, names[2])
    began = time.monotonic()
    while steps(rehearsal, names[2]) < at + 5:  # two more steps may be under way
        time.sleep(0.05)
    waited = time.monotonic() - began
    time.sleep(max(0.0, seconds - waited))
    os.kill(rehearsal.processes[names[1]].pid, signal.SIGCONT)
    result = ended(rehearsal)
    events = begun_steps(rehearsal, 1)
    gap = max(after.step - before.step for before, after in pairwise(events))
    return {"stopped, s": seconds, "others went on after, s": round(waited, 1), "steps missed": gap, **result}


def halves(seconds):
    """Six sites on a ring, three on either side of a cable, which is pulled for a while.

    They are stopped once both links across have been used again, so that the machine's speed does not matter.
    """
    with Namespaces() as places:
        rehearsal = prepare(6, graph="ring", algorithm="dpmsgd", batch_size=240, steps=10**6)
        rehearsal.in_namespaces(places, {f"s{number}": number // 3 for number in range(6)})
        names = begun(rehearsal)
        places.cut()
        time.sleep(LOST_AFTER + 1)
        before = [steps(rehearsal, name) for name in names]
        time.sleep(max(0.0, seconds - LOST_AFTER - 1))
        went_on = sum(steps(rehearsal, name) > count for name, count in zip(names, before, strict=True))
        places.mend()
        mended = time.monotonic()
        while not all(_met(rehearsal, *link) for link in ACROSS) and time.monotonic() < mended + REJOIN:
            time.sleep(0.5)
        waited = round(time.monotonic() - mended, 1)
        time.sleep(5)
        rehearsal.stop()
        found = repeated(rehearsal)
    again = sum(_met(rehearsal, *link) for link in ACROSS)
    return {
        "cut, s": seconds,
        "went on apart": went_on,
        "links that were used again": again,
        "both again after, s": waited,
        "steps": min(each.steps for each in found),
        "same": sum(each.same and each.journal is not None for each in found),
    }


def slow(kind):
    """Two sites with the paper's CNN: seconds of a step with a plain cable, with 100 Mbit/s, or with 50 ms each way."""
    with Namespaces() as places:
        rehearsal = prepare(2, graph="ring", algorithm="cga", model="cnn", steps=20)
        if kind == "latency":
            behind(rehearsal, {"s0"}, LATENCY)
        else:
            rehearsal.in_namespaces(places, {"s0": 0, "s1": 1})
            if kind == "rate":
                places.limit()
        began = time.monotonic()
        for name in ("s0", "s1"):
            rehearsal.start(name)
        result = ended(rehearsal)
    last = list(read_records(rehearsal.run_folder("s0") / "records.jsonl"))[-1]
    return {"s per step": round(last.seconds / last.step, 3), "s in all": round(time.monotonic() - began, 1), **result}


def _met(rehearsal, agent, other):
    """Whether two agents took part together, then not, and then again."""
    events = begun_steps(rehearsal, agent)
    together = [any(peer == other for peer, _, _ in event.partners) for event in events]
    return True in together and False in together and True in together[together.index(False) :]


def gone(partition):
    """Five of ten sites are killed for good; the accuracy of the others beside a run that never had them."""
    results = {}
    for what, started, killed in (("all ten", 10, 0), ("five killed", 10, 5), ("never had them", 5, 0)):
        rehearsal = prepare(
            10, graph="fully-connected", algorithm="cga-mean", partition=partition, steps=300, gather=20 - started
        )
        names = begun(rehearsal, started)
        while killed and min(steps(rehearsal, name) for name in names) < 60:
            time.sleep(0.1)
        for name in names[5 : 5 + killed]:
            rehearsal.kill(name)
        statuses = [rehearsal.processes[name].wait(PATIENCE) for name in names[:5]]
        for name in names[5 + killed :]:
            rehearsal.processes[name].wait(PATIENCE)
        last = [list(read_records(rehearsal.run_folder(name) / "records.jsonl"))[-1] for name in names[:5]]
        results[what] = {"accuracy": round(sum(r.accuracy for r in last) / 5, 4), "finished": statuses.count(0)}
    return results


FAULTS = {
    "cable": lambda seconds: slow("cable"),
    "100 Mbit/s": lambda seconds: slow("rate"),
    "50 ms each way": lambda seconds: slow("latency"),
    "gone, iid": lambda seconds: gone("iid"),
    "gone, by class": lambda seconds: gone("class"),
    "stop": hung,
    "halves": halves,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="that a site is stopped, and a link cut")
    parser.add_argument("--only", choices=FAULTS, help="one of them; figures of the others in --out are kept")
    parser.add_argument("--out", type=Path, help="written after every fault")
    options = parser.parse_args()
    kept = json.loads(options.out.read_text()) if options.only and options.out and options.out.exists() else {}
    summary = kept | {"lost after, s": LOST_AFTER}
    for name in FAULTS if options.only is None else [options.only]:
        summary[name] = FAULTS[name](options.seconds)
        print(name, summary[name], flush=True)
        if options.out:
            options.out.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
