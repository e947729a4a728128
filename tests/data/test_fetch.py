"""Downloads are resumed, verified, and appear under their name only when whole."""

import hashlib
import importlib
import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from crossgrad.data import FetchError, fetch
from crossgrad.data.files.sources import SOURCES, Published, RemoteFile

BODY = bytes(range(256)) * 400
PATH = "numbers.bin"


def described(body):
    return RemoteFile(PATH, len(body), hashlib.md5(body).hexdigest())


@pytest.fixture(autouse=True)
def one_file(monkeypatch, server, alone):
    """In place of MNIST a single file, on the server of this test; no waiting between rounds."""
    server.files[PATH] = BODY
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setitem(SOURCES, "mnist", Published((server.url,), (described(BODY),)))
    monkeypatch.setattr(importlib.import_module("crossgrad.data.files.fetch"), "PAUSE", 0)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mnist").mkdir()
    return tmp_path / "mnist"


def test_a_file_is_fetched_whole_and_nothing_else_is_left(server, folder):
    seen = []
    assert fetch("mnist", folder, lambda *progress: seen.append(progress)) == folder
    assert (folder / PATH).read_bytes() == BODY
    assert os.listdir(folder) == [PATH]
    assert seen[0] == (PATH, 0, len(BODY))
    assert seen[-1] == (PATH, len(BODY), len(BODY))


def test_what_is_there_and_verified_is_left_alone(server, folder):
    fetch("mnist", folder)
    before = (folder / PATH).stat()
    fetch("mnist", folder)
    assert len(server.asked) == 1
    assert (folder / PATH).stat().st_mtime_ns == before.st_mtime_ns


def test_every_data_set_gets_a_folder_of_its_own_name(tmp_path):
    assert fetch("mnist", tmp_path / "data") == tmp_path / "data" / "mnist"


def test_without_a_folder_the_variable_decides_and_then_the_cache(tmp_path, monkeypatch, alone):
    assert fetch("mnist") == alone / "crossgrad" / "mnist"
    monkeypatch.setenv("CROSSGRAD_DATA", str(tmp_path / "variable"))
    assert fetch("mnist") == tmp_path / "variable" / "mnist"


def test_a_part_is_resumed_where_it_ends(server, folder):
    (folder / f"{PATH}.part").write_bytes(BODY[:1000])
    fetch("mnist", folder)
    assert server.asked == [(f"/{PATH}", "bytes=1000-")]
    assert (folder / PATH).read_bytes() == BODY


def test_a_whole_part_needs_no_server(server, folder):
    (folder / f"{PATH}.part").write_bytes(BODY)
    fetch("mnist", folder)
    assert server.asked == []
    assert os.listdir(folder) == [PATH]


def test_a_server_that_ignores_the_range_sends_all_again(server, folder):
    server.ignores_range = True
    (folder / f"{PATH}.part").write_bytes(b"x" * 1000)
    fetch("mnist", folder)
    assert (folder / PATH).read_bytes() == BODY


def test_a_part_that_is_too_long_is_begun_anew(server, folder):
    (folder / f"{PATH}.part").write_bytes(BODY + b"more")
    fetch("mnist", folder)
    assert server.asked == [(f"/{PATH}", None)]


def test_a_range_the_server_refuses_is_begun_anew(server, folder):
    server.refuses_range = True
    (folder / f"{PATH}.part").write_bytes(BODY[:1000])
    fetch("mnist", folder)
    assert [question for _, question in server.asked] == ["bytes=1000-", None]


def test_a_part_of_another_file_is_noticed_and_begun_anew(server, folder):
    (folder / f"{PATH}.part").write_bytes(b"x" * 1000)
    fetch("mnist", folder)
    assert [question for _, question in server.asked] == ["bytes=1000-", None]
    assert (folder / PATH).read_bytes() == BODY


def test_a_server_that_resumes_elsewhere_is_not_believed(server, folder):
    server.shifts_range = 5
    (folder / f"{PATH}.part").write_bytes(BODY[:1000])
    with pytest.raises(FetchError, match="resumes elsewhere"):
        fetch("mnist", folder)


@pytest.mark.parametrize("states_length", [True, False])
def test_an_answer_that_stops_short_is_kept_and_resumed(server, folder, states_length):
    server.sends_at_most, server.states_length = 10_000, states_length
    with pytest.raises(FetchError, match=r"30,000 of 102,400 bytes.*\.part, and running this again resumes there"):
        fetch("mnist", folder)
    assert os.listdir(folder) == [f"{PATH}.part"]
    server.sends_at_most = None
    fetch("mnist", folder)
    assert server.asked[-1] == (f"/{PATH}", "bytes=30000-")
    assert (folder / PATH).read_bytes() == BODY


def test_a_corrupted_file_is_dropped_and_both_checksums_named(server, folder):
    server.files[PATH] = BODY[:-1] + b"?"
    with pytest.raises(FetchError) as caught:
        fetch("mnist", folder)
    assert f"should be {described(BODY).md5}, but is {described(server.files[PATH]).md5}" in str(caught.value)
    assert os.listdir(folder) == []
    assert len(server.asked) == 1


@pytest.mark.parametrize("states_length", [True, False])
def test_a_longer_file_is_refused(server, folder, states_length):
    server.files[PATH] = BODY * 2
    server.states_length = states_length
    with pytest.raises(FetchError, match="102,400"):
        fetch("mnist", folder)
    assert os.listdir(folder) == []


def test_a_missing_file_is_asked_for_once(server, folder):
    server.files.clear()
    with pytest.raises(FetchError, match=f"404.*copy the file to {folder}"):
        fetch("mnist", folder)
    assert len(server.asked) == 1


def test_a_server_in_trouble_is_asked_three_times(server, folder):
    server.status = 503
    with pytest.raises(FetchError, match="503"):
        fetch("mnist", folder)
    assert len(server.asked) == 3


def test_the_next_mirror_helps_out(server, folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refuses connections
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        fetch("mnist", folder, mirrors=[f"{server.url}/nothing/", dead, server.url])
        assert (folder / PATH).read_bytes() == BODY
        (folder / PATH).unlink()
        with pytest.raises(FetchError, match="gives no answer"):
            fetch("mnist", folder, mirrors=[dead])


def test_a_server_that_dies_leaves_what_it_sent(folder):
    listener = socket.create_server(("127.0.0.1", 0))

    def die():
        for _ in range(3):
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 102400\r\n\r\n" + BODY[:500])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close by reset
            connection.close()

    thread = threading.Thread(target=die)
    thread.start()
    with pytest.raises(FetchError, match=f"{PATH} could not be fetched"):
        fetch("mnist", folder, mirrors=[f"http://127.0.0.1:{listener.getsockname()[1]}"])
    thread.join()
    listener.close()
    assert not (folder / PATH).exists()


def test_a_broken_file_stays_until_a_good_one_replaces_it(server, folder):
    (folder / PATH).write_bytes(b"the user's own")
    server.status = 404
    with pytest.raises(FetchError):
        fetch("mnist", folder)
    assert (folder / PATH).read_bytes() == b"the user's own"
    server.status = None
    fetch("mnist", folder)
    assert (folder / PATH).read_bytes() == BODY


@pytest.mark.parametrize("address", ["file:///etc/", "ftp://127.0.0.1/", "data:,", "mirror.org/mnist"])
def test_only_web_addresses_are_mirrors(folder, address):
    with pytest.raises(ValueError, match="http"):
        fetch("mnist", folder, mirrors=[address])


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1:1/x", "data:,x"])
def test_no_redirection_leads_out_of_the_web(server, folder, address):
    server.redirects_to = address
    with pytest.raises(FetchError):
        fetch("mnist", folder)
    assert os.listdir(folder) == []


def test_a_folder_that_cannot_be_written_is_named():
    """Root may write anywhere, so as root this test becomes somebody else for a moment."""
    if not hasattr(os, "geteuid"):
        pytest.skip("folders have no owner here")
    with tempfile.TemporaryDirectory() as closed:
        Path(closed).chmod(0o555)
        me = os.geteuid()
        if me == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(FetchError, match=f"{closed}.*Permission denied.*choose another folder"):
                fetch("mnist", closed)
        finally:
            os.seteuid(me)
            Path(closed).chmod(0o755)


def test_a_file_in_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "mnist").write_bytes(b"")
    with pytest.raises(FetchError, match="choose another folder"):
        fetch("mnist", tmp_path)


def test_nothing_is_fetched_of_unknown_or_built_in_data_sets_nor_from_nowhere(folder):
    with pytest.raises(FetchError, match="no mirror is given"):
        fetch("mnist", folder, mirrors=[])
    with pytest.raises(ValueError, match="did you mean mnist"):
        fetch("mnits")
    with pytest.raises(ValueError, match="scikit-learn"):
        fetch("digits")


def test_the_real_files_are_those_published(real_data, server, monkeypatch):
    monkeypatch.undo()
    for file in SOURCES["mnist"].files:
        data = (real_data / "mnist" / file.name).read_bytes()
        assert (len(data), hashlib.md5(data).hexdigest()) == (file.size, file.md5)
    assert fetch("mnist", real_data / "mnist", mirrors=[]) == real_data / "mnist"
