"""The pickled batches of CIFAR-10's Python version, read as data: nothing that they name is ever imported or called.

A pickle is a program: plain unpickling of a downloaded file runs whatever it asks for, and takes what memory it asks
for. The machine here knows just the operations that those batches need (of the binary protocols, 2 to 4), and of the
functions they name it knows what they would have made. It takes no more steps than a batch of that size needs.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgrad.data.files.streams import DataFileError

BYTES_PER_STEP = 100  # at least: an image takes over 3000 bytes and a dozen steps
MORE_STEPS = 1000

ARRAY = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}
CLASS, TYPE, ENCODE = ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")


class _PickleError(ValueError):
    """What is wrong with a pickle, in words that fit into a sentence."""


class _Type:
    """What numpy.dtype would make: its name is all that matters of single bytes."""

    def __init__(self, name: object) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name


class _Array:
    """What numpy's array would be made from: shape, type and bytes, kept until they are checked."""

    state: object = ()

    def pixels(self) -> NDArray[np.uint8]:
        match self.state:
            case (_, (int(), int()) as shape, _Type(name="u1"), bool(column_major), bytes(data)):
                return np.frombuffer(data, np.uint8).reshape(shape, order="F" if column_major else "C")
        raise _PickleError("its array is not one of bytes, an image per row")


class _Machine:
    def __init__(self, program: bytes | bytearray) -> None:
        self.program, self.at = memoryview(program), 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.to_encode = len(program)  # characters; each is in the file once

    def run(self) -> Any:
        for _ in range(len(self.program) // BYTES_PER_STEP + MORE_STEPS):
            code = self.take(1)
            if code == b".":
                return self.stack.pop()
            if code not in OPERATIONS:
                raise _PickleError(f"it uses the operation {code.hex()}, which no such batch needs")
            OPERATIONS[code](self)
        raise _PickleError("it takes more steps than such a batch needs")

    def take(self, count: int) -> bytes:
        piece = bytes(self.program[self.at : self.at + count])
        if len(piece) < count:
            raise _PickleError("it is cut short")
        self.at += count
        return piece

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def line(self) -> str:
        end = bytes(self.program[self.at : self.at + 100]).index(b"\n")
        return self.take(end + 1)[:-1].decode("ascii")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def marked(self) -> list[Any]:
        """What lies above the last mark, taken off the stack."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def last(self, count: int) -> tuple[Any, ...]:
        return tuple(self.stack.pop() for _ in range(count))[::-1]

    def name(self, module: object, name: object) -> None:
        if (module, name) not in ARRAY | {CLASS, TYPE, ENCODE}:
            raise _PickleError(f"it asks for {module!a:.50}.{name!a:.50}, which no such batch needs".replace("'", ""))
        self.push((module, name))

    def call(self) -> None:
        """Push what the named function would make of its arguments."""
        function, arguments = self.last(2)
        match arguments:
            case _ if function in ARRAY:
                self.push(_Array())
            case (name, *_) if function == TYPE:
                self.push(_Type(name))
            case (str(text), "latin1") if function == ENCODE and len(text) <= self.to_encode:
                self.to_encode -= len(text)
                self.push(text.encode("latin1"))
            case _:
                raise _PickleError("it calls what no such batch needs")

    def build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], _Array):
            self.stack[-1].state = state
        elif not isinstance(self.stack[-1], _Type):
            raise _PickleError("it fills what is no array")

    def append(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise _PickleError("it appends to what is no list")
        self.stack[-1].extend(items)

    def set_items(self, items: list[Any]) -> None:
        keys = items[::2]
        if not isinstance(self.stack[-1], dict) or not all(isinstance(key, str | bytes) for key in keys):
            raise _PickleError("it has a table without names")  # others than texts could all have one hash
        self.stack[-1].update(zip(keys, items[1::2], strict=True))


OPERATIONS: dict[bytes, Callable[[_Machine], object]] = {
    b"\x80": lambda m: m.take(1),  # the protocol
    b"\x95": lambda m: m.take(8),  # the size of a frame
    b"(": lambda m: m.marks.append(len(m.stack)),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"K": lambda m: m.push(m.number("<B")),
    b"M": lambda m: m.push(m.number("<H")),
    b"J": lambda m: m.push(m.number("<i")),
    b"U": lambda m: m.push(m.take(m.number("<B"))),
    b"T": lambda m: m.push(m.take(m.number("<I"))),
    b"C": lambda m: m.push(m.take(m.number("<B"))),
    b"B": lambda m: m.push(m.take(m.number("<I"))),
    b"\x8e": lambda m: m.push(m.take(m.number("<Q"))),
    b"X": lambda m: m.push(m.take(m.number("<I")).decode()),
    b"\x8c": lambda m: m.push(m.take(m.number("<B")).decode()),
    b"\x8d": lambda m: m.push(m.take(m.number("<Q")).decode()),
    b"]": lambda m: m.push([]),
    b"}": lambda m: m.push({}),
    b")": lambda m: m.push(()),
    b"\x85": lambda m: m.push(m.last(1)),
    b"\x86": lambda m: m.push(m.last(2)),
    b"\x87": lambda m: m.push(m.last(3)),
    b"t": lambda m: m.push(tuple(m.marked())),
    b"a": lambda m: m.append([m.stack.pop()]),
    b"e": lambda m: m.append(m.marked()),
    b"s": lambda m: m.set_items(list(m.last(2))),
    b"u": lambda m: m.set_items(m.marked()),
    b"q": lambda m: m.memo.__setitem__(m.number("<B"), m.stack[-1]),
    b"r": lambda m: m.memo.__setitem__(m.number("<I"), m.stack[-1]),
    b"\x94": lambda m: m.memo.__setitem__(len(m.memo), m.stack[-1]),
    b"h": lambda m: m.push(m.memo[m.number("<B")]),
    b"j": lambda m: m.push(m.memo[m.number("<I")]),
    b"c": lambda m: m.name(m.line(), m.line()),
    b"\x93": lambda m: m.name(*m.last(2)),
    b"R": lambda m: m.call(),
    b"b": lambda m: m.build(),
}


def unpickle_batch(data: bytes | bytearray, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The (n, 3072) pixels and the n labels of one pickled batch; `path` is for the error's sentence only."""
    try:
        return _parts(_Machine(data).run())
    except Exception as error:  # a broken pickle can raise anything
        reason = str(error) if isinstance(error, _PickleError) else f"it is broken: {type(error).__name__}"
        raise DataFileError(
            f"{path} should be a pickled CIFAR-10 batch, but it cannot be read ({reason}); "
            f"fetch the binary version with `crossgrad data fetch cifar10`."
        ) from error


def _parts(batch: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    if not isinstance(batch, dict):
        raise _PickleError(f"it holds a {type(batch).__name__.strip('_').lower()}, not a table")
    batch = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
    pixels, labels = batch.get("data"), batch.get("labels")
    if not isinstance(pixels, _Array):
        raise _PickleError("it has no array of pixels")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise _PickleError("it has no list of labels")
    return pixels.pixels(), np.array(labels, np.int64)
