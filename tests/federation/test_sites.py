"""Sites as processes of their own, over real connections."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAIT = 240  # seconds for a process, which takes ten on a machine that has nothing else to do

UNDISTURBED = """
import sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from sites import Forked, federation, repeated
from crossgrad.federation.training import digest_of

torch.set_num_threads(1)  # as each site has, or the last bits differ
for case in sys.argv[2:]:
    algorithm, graph, *gossip = case.split(" ", 2)
    gossip = {"gossip": gossip[0]} if gossip else {}
    made = federation(4, graph=graph, algorithm=algorithm, partition="class", steps=8, lost_after=20, **gossip)
    rehearsal = Forked.prepare(made, Path(tempfile.mkdtemp()))
    for entry in rehearsal.federation.sites:
        rehearsal.start(entry.name)
    statuses = rehearsal.wait(120)
    simulated = rehearsal.federation.experiment.start()
    for _ in simulated:
        pass
    found = repeated(rehearsal)
    same = [each.journal == digest_of(simulated.state.x[each.agent]) for each in found]
    print(case, set(statuses.values()), all(same), all(each.same for each in found), flush=True)
"""


def run(forks, *command):
    answer = forks.run(list(command), timeout=WAIT)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def undisturbed(forks, *cases):
    lines = run(forks, "-c", UNDISTURBED, str(ROOT / "proofs"), *cases).splitlines()
    assert lines == [f"{case} {{0}} True True" for case in cases]


def test_sites_without_faults_come_to_the_bits_of_the_simulation(forks):
    undisturbed(forks, "compcga ring", "gradient-tracking bipartite")


def test_several_rounds_of_gossip_between_sites_come_to_the_bits_of_the_simulation(forks):
    undisturbed(forks, "dpmsgd ring { rounds = 3, chebyshev = true }", "edm bipartite { local_steps = 2 }")


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["ring", "bipartite", "fully-connected"])
def test_every_algorithm_between_sites_comes_to_the_bits_of_the_simulation(forks, graph):
    from crossgrad.algorithms import ALGORITHMS

    keep_copies = {"choco", "adagossip", "beer", "motef", "relaysgd"}  # these are refused
    undisturbed(forks, *[f"{algorithm} {graph}" for algorithm in ALGORITHMS if algorithm not in keep_copies])


def test_killed_sites_come_back_and_every_model_is_repeated_from_the_journals(forks, tmp_path):
    out = tmp_path / "kills.json"
    run(forks, ROOT / "proofs" / "federation_kills.py", "--kills", "4", "--each", "4", "--out", str(out))
    found = json.loads(out.read_text())
    assert found["kills"] >= 4
    assert found["hung"] == 0
    assert found["same"] == found["sites"]
