"""Ways to spoil bytes: each takes a source of randomness and a file's bytes, and returns other bytes."""

import gzip
import lzma
import math
import re
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

Mutator = Callable[[Random, bytes], bytes]

WHOLE = [0, 1, -1, 2, 127, 128, 255, 256, 65535, 65536, 10**6, 10**12]
WHOLE += [sign * 2**power + more for power in (31, 32, 53, 63, 64) for more in (-1, 0, 1) for sign in (1, -1)]
FLOATS = [0.0, -0.0, 0.5, 1.0, 1e-300, 5e-324, 1e308, math.nan, math.inf, -math.inf, 1e-9, -1.5, 1 / 3]
ODD_TEXT = [
    "",
    " ",
    "\n",
    "\r",
    "\t",
    "\0",
    "\x1b[31m",
    "é",
    "\u2028",
    "\ufeff",
    "\U0001d7d9",
    "²",
    "\ud7ff",
    "a" * 300,
]
ODD_WORDS = [
    "nan",
    "inf",
    "-inf",
    "NaN",
    "Infinity",
    "null",
    "true",
    "1e999",
    "0x10",
    "0x" + "f" * 5000,
    "1_0",
    "9" * 5000,
    "-0",
    "#",
    "=",
]
ODD_WORDS += ["..", "../x", "/etc/passwd", "~", "%s", "{}", "[" * 3000, "{" * 500, "\\", '"', "'", ",", ";", "None"]


def place(rng: Random, data: bytes) -> slice:
    """A piece of the data: short in most cases, and near the start (a header) in half of them."""
    start = rng.randrange(min(len(data), 64) + 1 if rng.random() < 0.5 else len(data) + 1)
    return slice(start, start + rng.choice([1, 2, 4, 8, 16, rng.randrange(len(data) + 1)]))


def flip_bits(rng: Random, data: bytes) -> bytes:
    out = bytearray(data or b"\0")
    for _ in range(rng.choice([1, 1, 2, 8])):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def drop(rng: Random, data: bytes) -> bytes:
    gone = place(rng, data)
    return data[: gone.start] + data[gone.stop :]


def double(rng: Random, data: bytes) -> bytes:
    piece = data[place(rng, data)][:4096]
    at = place(rng, data).start
    return data[:at] + piece * rng.choice([1, 2, 100]) + data[at:]


def swap(rng: Random, data: bytes) -> bytes:
    a, b = sorted((place(rng, data), place(rng, data)), key=lambda part: part.start)
    return data[: a.start] + data[b] + data[a.stop : b.start] + data[a] + data[b.stop :]


def plant_number(rng: Random, data: bytes) -> bytes:
    """Overwrite some bytes with a number at a boundary, of 1 to 8 bytes, in either byte order."""
    order, kind = rng.choice("<>"), rng.choice("BHIQfd")
    if kind in "fd":
        value = rng.choice(FLOATS)
        number = struct.pack(order + kind, value if kind == "d" or not abs(value) > 3e38 else math.inf)
    else:
        size = struct.calcsize(kind)
        number = (rng.choice(WHOLE) % 256**size).to_bytes(size, "little" if order == "<" else "big")
    at = place(rng, data).start
    return data[:at] + number + data[at + len(number) :]


def plant_noise(rng: Random, data: bytes) -> bytes:
    at = place(rng, data)
    return data[: at.start] + rng.randbytes(rng.choice([1, 4, 50])) + data[at.stop :]


def change_number(rng: Random, data: bytes) -> bytes:
    """Replace one of the numbers of a text."""
    found = list(re.finditer(rb"[-+]?[0-9][0-9.e+-]*", data))
    if not found:
        return plant_word(rng, data)
    spot = rng.choice(found)
    return data[: spot.start()] + number_word(rng).encode() + data[spot.end() :]


def plant_word(rng: Random, data: bytes) -> bytes:
    at = place(rng, data)
    word = rng.choice([*ODD_WORDS, *ODD_TEXT]).encode()
    return data[: at.start] + word + data[rng.choice([at.start, at.stop]) :]


def shuffle_lines(rng: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines[: rng.randrange(len(lines) + 1)] + lines[: rng.randrange(2)])


def number_word(rng: Random) -> str:
    return rng.choice([str(rng.choice(WHOLE)), repr(rng.choice(FLOATS)), str(rng.randrange(20)), rng.choice(ODD_WORDS)])


PACKERS: tuple[tuple[bytes, Callable[[bytes], bytes], Callable[[], Any]], ...] = (
    (b"\x1f\x8b", gzip.compress, lambda: zlib.decompressobj(31)),
    (b"\xfd7zXZ", lzma.compress, lzma.LZMADecompressor),
)
MAX_UNPACKED_BYTES = 1 << 20


def unpacked(mutator: Mutator) -> Mutator:
    """The same inside a gzip or xz file, so that its checksum does not give the change away."""

    def mutate(rng: Random, data: bytes) -> bytes:
        for magic, pack, unpacker in PACKERS:
            if data.startswith(magic):
                try:
                    content = unpacker().decompress(data, MAX_UNPACKED_BYTES)
                except (EOFError, lzma.LZMAError, zlib.error):  # spoilt before
                    break
                return pack(mutator(rng, content))
        return mutator(rng, data)

    return mutate


BINARY: tuple[Mutator, ...] = (flip_bits, cut, drop, double, swap, plant_number, plant_number, plant_noise)
TEXT: tuple[Mutator, ...] = (
    change_number,
    change_number,
    plant_word,
    plant_word,
    shuffle_lines,
    drop,
    double,
    swap,
    cut,
)
TEXT += (flip_bits, plant_noise)
PACKED: tuple[Mutator, ...] = (*BINARY, *map(unpacked, BINARY))
