"""Pickles of CIFAR-10's batches, and others that want to run something or to fill the memory."""

import os
import pickle
import struct
from random import Random
from typing import Any

import numpy as np

RECORDS = 2  # images of a batch here


def python_2_batch() -> bytes:
    """As Python 2 wrote it: byte strings where Python 3 has text or bytes."""
    pixels = b"\x07" * (RECORDS * 3072)
    array = b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\0\x85U\x01b\x87R"
    array += b"q\x08(K\x01K\x02M\0\x0c\x86"
    array += b"cnumpy\ndtype\nq\x0cU\x02u1K\0K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89"
    array += b"T" + struct.pack("<I", len(pixels)) + pixels + b"tb"
    return b"\x80\x02}q\x01(U\x04dataq\x02" + array + b"U\x06labelsq\x0d]q\x0e(K\x06K\x07eu."


class Evil:
    """A pickle of this runs a command when it is loaded."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments


EVIL = [Evil(os.system, "touch ran"), Evil(os.mkdir, "ran"), Evil(open, "ran", "w"), Evil(eval, "open('ran', 'w')")]
EVIL += [Evil(exec, "import os; os.mkdir('../ran')"), Evil(__import__, "this"), Evil(bytearray, 2**33), Evil(exit, 1)]


def evil_pickle(rng: Random) -> bytes:
    """A pickle that would run code, alone or in the place of pixels, labels or a key."""
    evil, inside = rng.choice(EVIL), {b"data": np.zeros((RECORDS, 3072), np.uint8), b"labels": [0] * RECORDS}
    inside[rng.choice([b"data", b"labels", b"more"])] = rng.choice([evil, [evil], {b"a": evil}])
    return pickle.dumps(rng.choice([evil, inside, inside, [inside, evil]]), protocol=rng.choice([0, 1, 2, 3, 4, 5]))


def memory_bomb(rng: Random) -> bytes:
    """A few bytes that ask for much: empty lists without number, or a memory slot far away."""
    if rng.random() < 0.5:
        return b"\x80\x04" + rng.choice([b"]", b"}", b"(", b"N"]) * 8000 + b"."
    return b"\x80\x02]r" + struct.pack("<I", rng.choice([10**9, 2**31 - 1, 2**32 - 1])) + b"."


def any_pickle(rng: Random) -> bytes:
    return rng.choice([evil_pickle, memory_bomb])(rng)
