"""A short run of proofs/fuzz.py: every reader reads spoilt files or refuses them in one sentence."""

import json
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "proofs" / "fuzz.py"


@pytest.mark.skipif(sys.platform != "linux", reason="it watches its processes through /proc")
def test_no_reader_fails_on_spoilt_files(tmp_path, forks):
    answer = forks.run([FUZZ, "--inputs", "25", "--out", tmp_path / "fuzz.json"])
    assert answer.returncode == 0, answer.stdout + answer.stderr
    for result in json.loads((tmp_path / "fuzz.json").read_text())["targets"].values():
        assert result["inputs"] == 25
        assert result["accepted"] > 0
        assert result["refused"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="it watches its processes through /proc")
def test_a_reader_that_fails_is_found(tmp_path, forks):
    """What each of these does is what the judge is there for."""
    judged = """
import os, sys, time, warnings
sys.path.insert(0, sys.argv[1])
import fuzz
from targets import Target
fuzz.SECONDS, fuzz.MEGABYTES = 0.5, 100.0
def memory(folder):
    held = b"x" * (150 << 20)
deeds = {
    "KeyError": lambda folder: {}["key"],
    "UserWarning": lambda folder: warnings.warn("beware"),
    "for writing": lambda folder: open("../outside", "w").close(),
    "os.system": lambda folder: os.system("true"),
    "no answer within": lambda folder: time.sleep(60),
    " MB": memory,
    "the process ended": lambda folder: os._exit(3),
    "not named": lambda folder: int("no whole number"),
    "UnicodeDecodeError": lambda folder: b"\\xff".decode(),
}
for word, deed in deeds.items():
    result = fuzz.fuzz(Target("faulty", ({"file": b"x"},), deed), 0, 1)
    found = result["first_failures"][0]["fault"]
    assert word in found, (word, found)
"""
    answer = forks.run(["-c", judged, FUZZ.parent])
    assert answer.returncode == 0, answer.stderr
