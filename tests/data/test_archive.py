"""An archive from elsewhere can neither hang the reader nor fill the memory."""

import gzip
import tarfile
import tracemalloc

import pytest

from crossgrad.data import DataFileError
from crossgrad.data.files.archive import read_members


def headers(*kinds_and_sizes, name="other"):
    blocks = b""
    for kind, size in kinds_and_sizes:
        entry = tarfile.TarInfo(name)
        entry.type, entry.size = kind, size
        blocks += entry.tobuf(tarfile.GNU_FORMAT)
    return blocks


def complaint(tmp_path, content):
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(DataFileError, match=r"a\.tar ") as error:
        read_members(tmp_path / "a.tar", {"wanted": 100})
    return str(error.value)


def test_a_member_of_astronomic_size_does_not_hang(tmp_path):
    assert "unpacks to more than" in complaint(tmp_path, headers((tarfile.REGTYPE, 2**63)))


def test_headers_about_headers_without_end_are_refused(tmp_path):
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        assert "is broken" in complaint(tmp_path, headers(*[(kind, 0)] * 5000))


def test_an_archive_of_countless_members_is_refused(tmp_path):
    assert "more than 1000 members" in complaint(tmp_path, headers(*[(tarfile.DIRTYPE, 0)] * 1001) + bytes(1024))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_long_name_that_unpacks_to_much_is_not_unpacked(tmp_path, kind):
    content = gzip.compress(headers((kind, 50 << 20)) + bytes(51 << 20), 1)
    tracemalloc.start()
    assert "a special member of 52,428,800 bytes" in complaint(tmp_path, content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_long_names_are_read(tmp_path, tar):
    path = tar(tmp_path / "a.tar", {"long" * 100: b"passed over", "wanted": b"found"})
    assert read_members(path, {"wanted": 100}) == {"wanted": b"found"}
