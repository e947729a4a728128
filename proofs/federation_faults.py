"""Sites that hang, links that are cut, a network that falls into halves, and sites that are gone for good."""

import argparse
import json
import os
import signal
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from sites import Forked, behind, federation, journals, repeated

from crossgrad.federation.agent import JOURNAL
from crossgrad.federation.journal import Began
from crossgrad.records.file import read_records

LOST_AFTER = 3.0  # seconds
PATIENCE = 400.0


def begun(rehearsal, silent=(), **changes):
    names = [entry.name for entry in rehearsal.federation.sites]
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
    events = [event for event in journals(rehearsal)[1] if isinstance(event, Began)]
    gap = max(after.step - before.step for before, after in pairwise(events))
    return {"stopped, s": seconds, "others went on after, s": round(waited, 1), "steps missed": gap, **result}


def halves(seconds):
    """Six sites on a ring; the two links between its halves are cut for a while."""
    rehearsal = prepare(6, silent=(0,), graph="ring", algorithm="dpmsgd", steps=int(150 * seconds))
    forwarders = behind(rehearsal, {"s2", "s5"})
    begun(rehearsal)
    for each in forwarders.values():
        each.cut()
    time.sleep(seconds)
    for each in forwarders.values():
        each.mend()
    result = ended(rehearsal)
    across = [_met(rehearsal, 2, 3), _met(rehearsal, 0, 5)]
    return {"cut, s": seconds, "links that were used again": sum(across), **result}


def _met(rehearsal, agent, other):
    """Whether two agents took part together, then not, and then again."""
    events = [event for event in journals(rehearsal)[agent] if isinstance(event, Began)]
    together = [any(peer == other for peer, _, _ in event.partners) for event in events]
    return True in together and False in together and True in together[together.index(False) :]


def gone(partition):
    """Five of ten sites are killed for good; the accuracy of the others beside a run that never had them."""
    results = {}
    for sites, killed in ((10, 5), (5, 0)):
        rehearsal = prepare(sites, graph="fully-connected", algorithm="cga-mean", partition=partition, steps=300)
        names = begun(rehearsal)
        while killed and min(steps(rehearsal, name) for name in names) < 60:
            time.sleep(0.1)
        for name in names[5 : 5 + killed]:
            rehearsal.kill(name)
        for name in names[:5]:
            rehearsal.processes[name].wait(PATIENCE)
        last = [list(read_records(rehearsal.run_folder(name) / "records.jsonl"))[-1] for name in names[:5]]
        results[f"{sites} sites"] = round(sum(record.accuracy for record in last) / 5, 4)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="that a site is stopped, and a link cut")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    summary = {"lost after, s": LOST_AFTER}
    for name, prove in (
        ("stop", lambda: hung(options.seconds)),
        ("halves", lambda: halves(options.seconds)),
        ("gone, iid", lambda: gone("iid")),
        ("gone, by class", lambda: gone("class")),
    ):
        summary[name] = prove()
        print(name, summary[name], flush=True)
    if options.out:
        options.out.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
