"""Pickles of CIFAR-10's batches, and others that want to run something or to fill the memory."""

import os
import pickle
import pickletools
import struct
from random import Random
from typing import Any

import numpy as np
from mutate import WHOLE

RECORDS = 2  # images of a batch here


def batch(protocol: int) -> bytes:
    pixels = np.arange(RECORDS * 3072).astype(np.uint8).reshape(RECORDS, 3072)
    names = [b"photograph.png"] * RECORDS
    return pickle.dumps({b"data": pixels, b"labels": [3] * RECORDS, b"filenames": names}, protocol=protocol)


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


def pickle_program(rng: Random) -> bytes:
    """Operations of a pickle in any order, with arguments of their kind, most of them wrong."""
    known = [b"cnumpy\ndtype\n", b"cnumpy\nndarray\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"c_codecs\nencode\n"]
    known += [b"cos\nsystem\n", b"cbuiltins\nexec\n", b"U\x04data", b"U\x06labels", b"U\x02u1", b"X\x06\0\0\0latin1"]
    known += [
        b"(",
        b"}",
        b"]",
        b")",
        b"R",
        b"b",
        b"\x81",
        b"t",
        b"u",
        b"e",
        b"s",
        b"a",
        b"\x85",
        b"\x86",
        b"K\x01",
        b"2",
    ]
    out = bytearray(rng.choice([b"", b"\x80\x02", b"\x80\x04"]))
    for _ in range(rng.choice([3, 10, 40])):
        out += rng.choice(known) if rng.random() < 0.7 else _operation(rng)
    return bytes(out) + b"."


def _operation(rng: Random) -> bytes:
    operation = rng.choice(pickletools.opcodes)
    code, argument = operation.code.encode("latin1"), operation.arg
    if argument is None:
        return code
    if argument.n >= 0:
        return code + (rng.choice(WHOLE) % 256**argument.n).to_bytes(argument.n, "little")
    if argument.n == pickletools.UP_TO_NEWLINE:
        return code + rng.choice([b"os\nsystem", b"1", b"99999999999", b"'a'", b"", b"\xff", b"9" * 5000]) + b"\n"
    size = {pickletools.TAKEN_FROM_ARGUMENT1: 1, pickletools.TAKEN_FROM_ARGUMENT8U: 8}.get(argument.n, 4)
    text = rng.choice([b"", b"abc", b"\xff\xfe", b"u1", b"latin1"])
    claimed = rng.choice([len(text), len(text), *WHOLE]) % 256**size
    return code + claimed.to_bytes(size, "little") + text


def pickle_bomb(rng: Random) -> bytes:
    """A few bytes that ask for much: empty things without number, lists of lists, texts copied over and over."""
    kind = rng.randrange(6)
    if kind == 0:
        return b"\x80\x04" + rng.choice([b"]", b"}", b"\x8f", b"(", b")", b"N", b"2"]) * 8000 + b"."
    if kind == 1:  # a memory slot far away
        return b"\x80\x02]r" + struct.pack("<I", rng.choice([10**6, 10**9, 2**31 - 1, 2**32 - 1])) + b"."
    if kind == 2:  # a list of ten lists of ten lists ... as labels
        nested: list[Any] = [1] * 10
        for _ in range(12):
            nested = [nested] * 10
        return pickle.dumps({b"data": np.zeros((RECORDS, 3072), np.uint8), b"labels": nested}, 2)
    if kind == 3:  # a text, encoded again and again
        text = b"X" + struct.pack("<I", 8000) + b"a" * 8000
        return b"\x80\x02" + text + b"q\x010](" + b"c_codecs\nencode\nh\x01X\x06\0\0\0latin1\x86R" * 200 + b"e."
    if kind == 4:  # a length that is not there
        return (
            b"\x80\x04" + rng.choice([b"\x8e", b"\x8d", b"\x96"]) + struct.pack("<Q", rng.choice([2**30, 2**62])) + b"."
        )
    return b"\x80\x02" + b"(" * 8000 + b"t" * 8000 + b"."


def any_pickle(rng: Random) -> bytes:
    make = rng.choice([evil_pickle, pickle_program, pickle_program, pickle_bomb])
    return make(rng)
