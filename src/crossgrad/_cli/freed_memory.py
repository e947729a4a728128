"""Memory settings of the process of a `crossgrad` command: freed memory is kept for the next step.

A training step allocates and frees the same large blocks again and again. glibc returns them to the system each time,
so that the next pass begins with thousands of page faults. Importing the library does not change these settings.
"""

import ctypes
import os
import sys

KEEP_MEMORY_VARIABLE = "CROSSGRAD_KEEP_MEMORY"  # "off": leave the process as it is

# Names and numbers of glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
KEEP_BYTES = 2**31 - 1  # free bytes at the end of the heap above which memory is returned
GROW_BYTES = 64 << 20  # by which the heap grows
MAX_BLOCK_BYTES = (1 << 30, 32 << 20)  # largest block taken from the heap; older versions of glibc accept 32 MB


def set_up_memory(wanted: bool, verbose: bool) -> None:
    """Keep freed memory unless `--no-keep-memory` was given; with `verbose`, print to stderr what was done."""
    done = keep_freed_memory() if wanted else "memory: the system's own settings, as --no-keep-memory was given."
    if verbose and os.environ.get("RANK", "0") == "0":
        print(done, file=sys.stderr)


def keep_freed_memory() -> str:
    """Make glibc's malloc keep freed memory for later passes; return a sentence that says what was done."""
    if os.environ.get(KEEP_MEMORY_VARIABLE, "").lower() == "off":
        return f"memory: the system's own settings, as {KEEP_MEMORY_VARIABLE} is off."
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or Windows
        return "memory: the system's own settings, as this is not glibc."
    kept = next((size for size in MAX_BLOCK_BYTES if mallopt(M_MMAP_THRESHOLD, size)), None)
    if kept is None or not mallopt(M_TRIM_THRESHOLD, KEEP_BYTES) or not mallopt(M_TOP_PAD, GROW_BYTES):
        return "memory: the system's own settings, as mallopt refused others."
    return f"memory: blocks of up to {kept >> 20} MB are kept for the next pass (--no-keep-memory leaves this out)."
