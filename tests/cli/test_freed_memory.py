"""The command lets its own process keep memory; the library leaves its user's alone."""

import ctypes
import os
import subprocess
import sys

import pytest

glibc_only = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="glibc only")

# Page faults of taking and freeing 256 MB ten times, in pages of 4 kB
FAULTS = """
import ctypes, resource, sys
from crossgrad._cli.freed_memory import keep_freed_memory
if sys.argv[1] == "tuned":
    keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
for _ in range(10):
    block = libc.malloc(64 << 20)
    ctypes.memset(block, 1, 64 << 20)
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@glibc_only
def test_memory_that_is_freed_comes_back_without_page_faults():
    plain, tuned = (
        int(subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True, timeout=60).stdout)
        for how in ("plain", "tuned")
    )
    assert plain > 100_000
    assert tuned < plain / 4


def memory_kept(forks, *arguments, **environment):
    """What a freed block of 64 MB leaves resident in a process after `crossgrad run` has set itself up."""
    code = """
import ctypes, sys
sys.argv = ["crossgrad", "run", *sys.argv[1:]]
from crossgrad._cli import main
try: main()
except SystemExit: pass
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
block = libc.malloc(64 << 20); ctypes.memset(block, 1, 64 << 20); libc.free(block)
before = int(open("/proc/self/statm").read().split()[1])
libc.malloc_trim(0)
print("left", (before - int(open("/proc/self/statm").read().split()[1])) * 4096 >> 20)
"""
    ended = forks.run(["-c", code, "missing.toml", *arguments], env={**os.environ, **environment})
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout.split()[-1]), ended.stderr


@glibc_only
@pytest.mark.parametrize(
    ("arguments", "environment", "kept", "said"),
    [
        (["-v"], {}, True, "are kept for the next pass"),
        (["-v", "--no-keep-memory"], {}, False, "as --no-keep-memory was given"),
        (["-v"], {"CROSSGRAD_KEEP_MEMORY": "off"}, False, "as CROSSGRAD_KEEP_MEMORY is off"),
        ([], {}, True, ""),
    ],
    ids=["tuned", "option", "environment", "silent"],
)
def test_a_run_keeps_freed_memory_unless_told_otherwise(forks, arguments, environment, kept, said):
    megabytes, err = memory_kept(forks, *arguments, **environment)
    assert (megabytes > 50) == kept
    assert said in err
    assert err.count("memory:") == bool(said)
