"""A pickled batch is read as data: it runs nothing, hangs nothing and takes no more memory than its size warrants."""

import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from crossgrad.data import DataFileError
from crossgrad.data.files.unpickle import unpickle_batch

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 3072), np.uint8)


def complaint(program):
    tracemalloc.start()
    with pytest.raises(DataFileError, match=r"^batch should be a pickled CIFAR-10 batch") as error:
        unpickle_batch(program, Path("batch"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6 + 10 * len(program)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500
    return str(error.value)


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("order", "CF")
def test_a_batch_comes_back(protocol, order):
    batch = {b"data": np.asarray(PIXELS, order=order), b"labels": [*range(10), 0, 1], "filenames": [b"\xe9"] * 12}
    pixels, labels = unpickle_batch(pickle.dumps(batch, protocol), Path("batch"))
    np.testing.assert_array_equal(pixels, PIXELS)
    assert labels.tolist() == [*range(10), 0, 1]
    assert labels.dtype == np.int64


def test_a_slot_of_memory_far_away_takes_none():
    assert "it holds a list" in complaint(b"\x80\x02]r\xff\xff\xff\xff.")


@pytest.mark.parametrize("operation", [b"]", b"}", b")", b"(", b"N"])
def test_empty_things_without_number_are_refused(operation):
    assert "more steps than such a batch needs" in complaint(b"\x80\x02" + operation * 1_000_000 + b".")


@pytest.mark.parametrize(
    "operation", [b"\x8f", b"2", b"I1\n", b"i", b"o", b"\x81", b"P1\n", b"Q", b"\x82\x01", b"\x97"]
)
def test_operations_that_no_batch_needs_are_refused(operation):
    assert "which no such batch needs" in complaint(b"\x80\x02" + operation + b".")


def test_lists_of_lists_of_lists_are_no_labels():
    nested = [1] * 10
    for _ in range(12):
        nested = [nested] * 10
    program = pickle.dumps({b"data": PIXELS, b"labels": nested}, 2)
    assert "it has no list of labels" in complaint(program)


def test_a_text_is_not_copied_over_and_over():
    text = b"X" + struct.pack("<I", 100_000) + b"a" * 100_000
    again = b"c_codecs\nencode\nh\x01X\x06\0\0\0latin1\x86R"
    assert "it calls what no such batch needs" in complaint(b"\x80\x02" + text + b"q\x01](" + again * 150 + b"e.")


def test_keys_that_could_share_one_hash_are_refused():
    assert "it has a table without names" in complaint(b"\x80\x02}(K\x01K\x02u.")


@pytest.mark.parametrize("operation", [b"T", b"B", b"X", b"\x8e", b"\x8d"])
def test_a_length_that_is_not_there_takes_no_memory(operation):
    size = struct.pack("<Q", 2**62) if operation in (b"\x8e", b"\x8d") else struct.pack("<I", 2**31 - 1)
    assert "it is cut short" in complaint(b"\x80\x04" + operation + size + b"abc.")


def test_a_name_is_shown_short_and_printable():
    assert "asks for os.\\x1b[31m" in complaint(b"\x80\x04\x8c\x02os\x8c\x05\x1b[31m\x93.")
    assert "asks for os.xxxx" in complaint(b"\x80\x04\x8c\x02osX\x88\x13\0\0" + b"x" * 5000 + b"\x93.")


def test_a_function_cannot_be_changed():
    assert "it fills what is no array" in complaint(b"\x80\x02c_codecs\nencode\n}U\x01aK\x01sb.")
