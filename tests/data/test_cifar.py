"""CIFAR-10 is read the same from every form it is published in, and nothing in it can do harm."""

import hashlib
import io
import os
import pickle
import tarfile

import numpy as np
import pytest

from crossgrad.data import DataFileError, load, read_cifar10
from crossgrad.data.files import cifar

BIN, PY = "cifar-10-batches-bin", "cifar-10-batches-py"


def under(folder, files):
    return {f"{folder}/{name}": data for name, data in files.items()}


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def check(path, batches, records):
    train, test = read_cifar10(path, records)
    rows = np.frombuffer(b"".join(batches.values()), np.uint8).reshape(6, records, 3073)
    np.testing.assert_array_equal(train.pixels, rows[:5, :, 1:].reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(train.labels, rows[:5, :, 0].reshape(-1))
    np.testing.assert_array_equal(test.pixels, rows[5, :, 1:].reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(test.labels, rows[5, :, 0])


@pytest.mark.parametrize("inside", [BIN, ""])
def test_a_folder_of_binary_batches_is_read(tmp_path, cifar_batches, records, inside):
    write(tmp_path / inside, cifar_batches)
    check(tmp_path, cifar_batches, records)


@pytest.mark.parametrize("inside", [PY, ""])
def test_a_folder_of_pickled_batches_is_read(tmp_path, cifar_batches, cifar_pickles, records, inside):
    write(tmp_path / inside, cifar_pickles)
    check(tmp_path, cifar_batches, records)


@pytest.mark.parametrize(("end", "mode"), [("", "w"), (".gz", "w:gz"), (".xz", "w:xz")])
@pytest.mark.parametrize("whole", [True, False], ids=["file", "folder"])
def test_a_binary_archive_is_read(tmp_path, tar, cifar_batches, records, end, mode, whole):
    members = under(BIN, cifar_batches) | {f"{BIN}/readme.html": b"hello", "../outside": b"ignored"}
    path = tar(tmp_path / f"cifar-10-binary.tar{end}", members, mode)
    check(path if whole else tmp_path, cifar_batches, records)
    assert os.listdir(tmp_path) == [path.name]


def test_a_pickled_archive_is_read(tmp_path, tar, cifar_batches, cifar_pickles, records):
    tar(tmp_path / "cifar-10-python.tar.gz", under(PY, cifar_pickles), "w:gz")
    check(tmp_path, cifar_batches, records)


def test_pickled_batches_load_as_samples_too(tmp_path, cifar_pickles, records, monkeypatch):
    monkeypatch.setattr("crossgrad.data.datasets.read_cifar10", lambda path: read_cifar10(path, records))
    split = load("cifar10", write(tmp_path / PY, cifar_pickles).parent)
    assert (len(split.train), len(split.test)) == (5 * records, records)


def test_a_folder_without_cifar_says_what_would_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="crossgrad data fetch cifar10"):
        read_cifar10(tmp_path)


@pytest.mark.parametrize("name", ["data_batch_3.bin", "test_batch.bin"])
def test_a_missing_batch_is_named(tmp_path, tar, cifar_batches, records, name):
    del cifar_batches[name]
    with pytest.raises(DataFileError, match=f"lacks .*{name}"):
        read_cifar10(write(tmp_path / BIN, cifar_batches).parent, records)
    with pytest.raises(DataFileError, match=f"lacks .*{name}"):
        read_cifar10(tar(tmp_path / "c.tar", under(BIN, cifar_batches)), records)


@pytest.mark.parametrize(
    "spoil", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: b""], ids=["short", "long", "empty"]
)
def test_a_batch_of_the_wrong_size_is_refused(tmp_path, tar, cifar_batches, records, spoil):
    cifar_batches["data_batch_2.bin"] = spoil(cifar_batches["data_batch_2.bin"])
    with pytest.raises(DataFileError, match=r"data_batch_2\.bin"):
        read_cifar10(write(tmp_path / BIN, cifar_batches).parent, records)
    with pytest.raises(DataFileError, match=r"data_batch_2\.bin"):
        read_cifar10(tar(tmp_path / "c.tar", under(BIN, cifar_batches)), records)


def test_a_label_above_nine_is_refused(tmp_path, cifar_batches, records):
    spoiled = bytearray(cifar_batches["data_batch_4.bin"])
    spoiled[5 * 3073] = 10
    cifar_batches["data_batch_4.bin"] = bytes(spoiled)
    with pytest.raises(DataFileError, match=r"data_batch_4.bin must hold labels 0 to 9; image 5 has label 10"):
        read_cifar10(write(tmp_path / BIN, cifar_batches).parent, records)


@pytest.mark.parametrize(("end", "mode"), [("", "w"), (".gz", "w:gz"), (".xz", "w:xz")])
@pytest.mark.parametrize("where", [0.3, 0.7])
def test_a_truncated_archive_is_refused(tmp_path, tar, cifar_batches, records, end, mode, where):
    path = tar(tmp_path / f"cifar-10-binary.tar{end}", under(BIN, cifar_batches), mode)
    path.write_bytes(path.read_bytes()[: int(where * path.stat().st_size)])
    with pytest.raises(DataFileError, match=r"cifar-10-binary\.tar"):
        read_cifar10(tmp_path, records)


@pytest.mark.parametrize(("end", "mode"), [(".gz", "w:gz"), (".xz", "w:xz")])
def test_a_flipped_byte_in_a_compressed_archive_is_noticed(tmp_path, tar, cifar_batches, records, end, mode):
    path = tar(tmp_path / f"cifar-10-binary.tar{end}", under(BIN, cifar_batches), mode)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataFileError, match="broken"):
        read_cifar10(path, records)


@pytest.mark.parametrize("content", [b"", b"no archive at all" * 100, b"\xfd7zXZ\0 not", b"\x1f\x8b\x08 not"])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(content)
    with pytest.raises(DataFileError, match=r"cifar-10-binary.tar.gz"):
        read_cifar10(tmp_path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_link_in_place_of_a_batch_is_refused(tmp_path, records, kind):
    with tarfile.open(tmp_path / "c.tar", "w") as archive:
        info = tarfile.TarInfo(f"{BIN}/data_batch_1.bin")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataFileError, match="not a file"):
        read_cifar10(tmp_path / "c.tar", records)


def test_a_batch_that_is_there_twice_is_refused(tmp_path, cifar_batches, records):
    with tarfile.open(tmp_path / "c.tar", "w") as archive:
        for _ in range(2):
            info = tarfile.TarInfo(f"{BIN}/data_batch_1.bin")
            info.size = len(cifar_batches["data_batch_1.bin"])
            archive.addfile(info, io.BytesIO(cifar_batches["data_batch_1.bin"]))
    with pytest.raises(DataFileError, match="there twice"):
        read_cifar10(tmp_path / "c.tar", records)


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path, tar, monkeypatch):
    monkeypatch.setattr("crossgrad.data.files.archive.MAX_UNPACKED_BYTES", 1 << 20)
    path = tar(tmp_path / "c.tar.gz", {"bomb": bytes(8 << 20)}, "w:gz")
    with pytest.raises(DataFileError, match="unpacks to more than"):
        read_cifar10(path)


class Evil:
    """Unpickled plainly, it would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_other_than_the_published_one_is_never_loaded(tmp_path, cifar_pickles):
    cifar_pickles["data_batch_1"] = pickle.dumps({b"data": Evil(tmp_path / "done"), b"labels": []})
    with pytest.raises(DataFileError, match=r"data_batch_1 must be the published batch with the md5 .*; its md5"):
        read_cifar10(write(tmp_path / PY, cifar_pickles).parent, 12)
    assert not (tmp_path / "done").exists()


def test_a_pickle_with_the_right_checksum_may_still_name_nothing_but_arrays(tmp_path, cifar_pickles, monkeypatch):
    cifar_pickles["data_batch_1"] = pickle.dumps({b"data": Evil(tmp_path / "done"), b"labels": []})
    md5 = hashlib.md5(cifar_pickles["data_batch_1"]).hexdigest()
    monkeypatch.setitem(cifar.PICKLED_MD5, "data_batch_1", md5)
    with pytest.raises(pickle.UnpicklingError, match=r"asks for posix.mkdir"):
        read_cifar10(write(tmp_path / PY, cifar_pickles).parent, 12)
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize(
    "spoil", [lambda d: d[:1000], lambda d: b"", lambda d: b"\x80\x02garbage", lambda d: d + bytes(99999)]
)
def test_a_broken_pickle_is_refused(tmp_path, tar, cifar_pickles, spoil):
    cifar_pickles["test_batch"] = spoil(cifar_pickles["test_batch"])
    with pytest.raises(DataFileError, match="test_batch"):
        read_cifar10(tar(tmp_path / "cifar-10-python.tar.gz", under(PY, cifar_pickles), "w:gz"), 12)
