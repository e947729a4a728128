"""What the `crossgrad` command asks of its own process: that memory once got from the system is kept.

A training step takes and frees the same large blocks again and again. glibc hands them back to the system each time,
and the next pass begins by taking thousands of page faults. Importing the library changes nothing of this.
"""

import ctypes
import os

VARIABLE = "CROSSGRAD_TUNING"  # "off": leave the process as it is

# Names and numbers of glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
NEVER = 2**31 - 1  # bytes at the end of the heap that must be free before any go back
AT_A_TIME = 64 << 20  # bytes that the heap grows by
LARGEST = (1 << 30, 32 << 20)  # blocks that come from the heap; older versions of glibc take 32 MB at most


def tune() -> str:
    """Let malloc keep its memory, where it is glibc's; what was done, in a sentence."""
    if os.environ.get(VARIABLE, "").lower() == "off":
        return f"memory: the system's own settings, as {VARIABLE} is off."
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or Windows
        return "memory: the system's own settings, as this is not glibc."
    kept = next((size for size in LARGEST if mallopt(M_MMAP_THRESHOLD, size)), None)
    if kept is None or not mallopt(M_TRIM_THRESHOLD, NEVER) or not mallopt(M_TOP_PAD, AT_A_TIME):
        return "memory: the system's own settings, as mallopt refused others."
    return f"memory: blocks of up to {kept >> 20} MB are kept for the next pass (--no-tuning leaves this out)."
