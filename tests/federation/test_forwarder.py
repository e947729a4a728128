"""Two sites that cannot be reached from outside, joined by a plain TCP forwarder that both can reach."""

import json
from pathlib import Path

import pytest

from crossgrad.experiments.config import ConfigError
from crossgrad.federation.reading import parse_federation

ROOT = Path(__file__).parents[2]

BEHIND = """
import dataclasses, json, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from relay import Relay
from sites import FILE, Forked, federation, journals, repeated, to_toml
from crossgrad.federation.journal import Began

torch.set_num_threads(1)
made = federation(2, silent=(1,), graph="ring", algorithm="cga", steps=8, lost_after=20)
rehearsal = Forked.prepare(made, Path(tempfile.mkdtemp()))
first, second = rehearsal.federation.sites
relay = Relay(int(first.listen.rpartition(":")[2]))
first = dataclasses.replace(first, address=f"127.0.0.1:{relay.outer}")
rehearsal.federation = dataclasses.replace(rehearsal.federation, sites=(first, second))
(rehearsal.folder / FILE).write_text(to_toml(rehearsal.federation))
for name in ("s0", "s1"):
    rehearsal.start(name)
statuses = rehearsal.wait(120)
steps = [len(event.partners) for event in journals(rehearsal)[0] if isinstance(event, Began)]
print(json.dumps({
    "statuses": list(statuses.values()), "joined": relay.joined, "same": [each.same for each in repeated(rehearsal)],
    "first bytes": [first.hex() for first in relay.first_bytes if first], "partners": steps,
}))
"""


def test_two_sites_that_both_only_dial_out_train_through_a_plain_relay_which_sees_only_tls(forks):
    answer = forks.run(["-c", BEHIND, ROOT / "proofs"])
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = json.loads(answer.stdout.splitlines()[-1])
    assert found["statuses"] == [0, 0]
    assert found["partners"] == [1] * 8
    assert found["same"] == [True, True]
    assert found["joined"] >= 1
    assert set(found["first bytes"]) == {"1603"}  # a TLS handshake, and nothing else


def test_two_neighbours_that_neither_listen_are_told_what_to_do():
    text = "[experiment]\nmodel='mlp'\ngraph='ring'\nalgorithm='cga'\npartition='iid'\ntraining={steps=1}\n"
    with pytest.raises(
        ConfigError, match=r"of two neighbours one must listen.*a plain TCP forwarder that both can reach"
    ):
        parse_federation(text + "[[sites]]\nname='a'\n[[sites]]\nname='b'\n")
