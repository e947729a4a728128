"""IDX files are read whole, or refused in one sentence that names the file."""

import contextlib
import gzip
import lzma
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossgrad.data import DataFileError, read_idx

ARRAY = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["a.gz", "a"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_compression_is_told_by_content_not_by_name(tmp_path, idx, name, pack):
    (tmp_path / name).write_bytes(pack(idx(ARRAY)))
    array = read_idx(tmp_path / name)
    assert array.dtype == np.uint8
    np.testing.assert_array_equal(array, ARRAY)


@pytest.mark.parametrize(("code", "dtype"), [(0x09, "i1"), (0x0B, "i2"), (0x0C, "i4"), (0x0D, "f4"), (0x0E, "f8")])
def test_every_number_type_is_read_in_native_byte_order(tmp_path, code, dtype):
    numbers = np.array([1, -2, 3], f">{dtype}")
    (tmp_path / "a").write_bytes(bytes([0, 0, code, 1, 0, 0, 0, 3]) + numbers.tobytes())
    array = read_idx(tmp_path / "a")
    assert array.dtype == np.dtype(dtype)
    assert array.tolist() == [1, -2, 3]


BROKEN = {
    "empty": (lambda data: b"", "is empty"),
    "another magic": (lambda data: b"\x89PNG" + data, "must be an IDX file.*89 50 4e 47"),
    "unknown type": (lambda data: b"\0\0\x0a\x01" + data[4:], "must be an IDX file"),
    "no dimensions": (lambda data: b"\0\0\x08\0", "must be an IDX file"),
    "two bytes": (lambda data: data[:2], "must be an IDX file"),
    "ends in header": (lambda data: data[:9], "must have a whole IDX header; it ends inside"),
    "truncated": (lambda data: data[:-1], r"24 bytes after its IDX header \(shape \(2, 3, 4\)\); only 23 follow"),
    "trailing": (lambda data: data + b"\0", "more follow"),
    "no items": (
        lambda data: data[:4] + bytes(4) + data[8:],
        r"its IDX header has the shape \(0, 3, 4\), which is 0 bytes",
    ),
    "too large": (lambda data: data[:4] + b"\xff" * 12 + data[16:], "must have 1 to 536,870,912 bytes of data"),
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(("spoil", "sentence"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, idx, pack, spoil, sentence):
    data = spoil(idx(ARRAY))
    path = tmp_path / "images"
    path.write_bytes(pack(data) if data else b"")
    with pytest.raises(DataFileError, match=sentence) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "spoil", [lambda z: z[:-12], lambda z: z[:-8] + bytes(8), lambda z: z[:10] + b"\xff" * 20, lambda z: z + b"x"]
)
def test_a_broken_gzip_is_named(tmp_path, idx, spoil):
    (tmp_path / "images.gz").write_bytes(spoil(gzip.compress(idx(ARRAY), mtime=0)))
    with pytest.raises(DataFileError, match=r"images.gz must decompress; it is broken"):
        read_idx(tmp_path / "images.gz")


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_header_that_lies_does_not_take_memory(tmp_path, pack):
    (tmp_path / "a").write_bytes(pack(b"\0\0\x08\x01" + (500 << 20).to_bytes(4, "big") + bytes(100)))
    tracemalloc.start()
    with pytest.raises(DataFileError, match="only 100 follow"):
        read_idx(tmp_path / "a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_a_small_file_that_unpacks_to_much_is_not_unpacked(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x04" + bytes(100 << 20), 1))
    tracemalloc.start()
    with pytest.raises(DataFileError, match="more follow"):
        read_idx(tmp_path / "a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=40), st.booleans())
def test_no_bytes_whatever_cause_another_error(tmp_path, data, honest):
    (tmp_path / "a").write_bytes(b"\0\0\x08\x01" + data if honest else data)
    with contextlib.suppress(DataFileError):
        read_idx(tmp_path / "a")


def test_a_missing_file_is_a_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "nothing")


def test_a_rank_that_numpy_does_not_have_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"\0\0\x08\x46" + b"\0\0\0\x01" * 70 + b"x")
    with pytest.raises(DataFileError, match=r"rank 1 to 8\); it starts with 00 00 08 46"):
        read_idx(tmp_path / "a")


def test_more_bytes_than_the_caller_allows_are_not_read(tmp_path, idx):
    (tmp_path / "a").write_bytes(idx(ARRAY))
    assert read_idx(tmp_path / "a", 24).shape == ARRAY.shape
    with pytest.raises(DataFileError, match=r"must have 1 to 23 bytes of data; .* which is 24 bytes"):
        read_idx(tmp_path / "a", 23)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
def test_zeros_without_end_after_a_packed_file_do_not_hang(tmp_path, idx, pack):
    (tmp_path / "a").write_bytes(pack(idx(ARRAY)))
    os.truncate(tmp_path / "a", 5 << 30)
    with pytest.raises(DataFileError, match="must have at most 536,870,912 bytes; it has 5,368,709,120"):
        read_idx(tmp_path / "a")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
@pytest.mark.parametrize("size", [1 << 20, 3 << 20, (3 << 20) + 1])
def test_a_packed_file_of_any_size_is_read(tmp_path, idx, pack, size):
    array = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    (tmp_path / "a").write_bytes(pack(idx(array)))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), array)


def test_a_pipe_or_a_folder_is_no_data_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(DataFileError, match="must be a file; it is a folder or a device"):
            read_idx(path)
