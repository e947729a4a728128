"""The command lets its own process keep memory; the library leaves its user's alone."""

import ctypes
import subprocess
import sys

import pytest

from crossgrad._cli import tuning
from crossgrad._cli.main import main

# Page faults of taking and freeing 256 MB ten times, in pages of 4 kB
FAULTS = """
import ctypes, resource, sys
from crossgrad._cli.tuning import tune
if sys.argv[1] == "tuned":
    tune()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
for _ in range(10):
    block = libc.malloc(64 << 20)
    ctypes.memset(block, 1, 64 << 20)
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="glibc only")
def test_memory_that_is_freed_comes_back_without_page_faults():
    plain, tuned = (
        int(subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True, timeout=60).stdout)
        for how in ("plain", "tuned")
    )
    assert plain > 100_000
    assert tuned < plain / 4


@pytest.fixture
def calls(monkeypatch):
    made = []

    class Library:
        def __init__(self, name):
            self.mallopt = lambda what, value: made.append((what, value)) or 1

    monkeypatch.setattr(tuning.ctypes, "CDLL", Library)
    monkeypatch.delenv(tuning.VARIABLE, raising=False)
    return made


def test_the_environment_switches_it_off(calls, monkeypatch):
    assert "1024 MB are kept" in tuning.tune()
    assert len(calls) == 3
    monkeypatch.setenv(tuning.VARIABLE, "off")
    assert "CROSSGRAD_TUNING is off" in tuning.tune()
    assert len(calls) == 3


def test_older_versions_of_glibc_keep_what_they_can(monkeypatch, calls):
    monkeypatch.setattr(
        tuning.ctypes, "CDLL", lambda _: type("Old", (), {"mallopt": lambda _, what, v: what != -3 or v < 1e8})()
    )
    assert "32 MB are kept" in tuning.tune()


def test_other_libraries_are_left_alone(monkeypatch, calls):
    monkeypatch.setattr(tuning.ctypes, "CDLL", lambda _: object())
    assert "not glibc" in tuning.tune()


def test_a_run_says_how_it_is_tuned_and_can_leave_it_out(calls, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("crossgrad._cli.run.run_experiment", lambda *_, **__: None)
    for arguments, said, made in ((["-v"], "are kept", 3), (["-v", "--no-tuning"], "--no-tuning", 3), ([], "", 6)):
        monkeypatch.setattr(sys, "argv", ["crossgrad", "run", str(tmp_path / "any.toml"), *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert not end.value.code
        assert out == ""
        assert said in err
        assert bool(err) == bool(said)
        assert len(calls) == made
