"""Downloads are verified, and appear under their name only when whole."""

import hashlib
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
    """In place of MNIST a single file, on the server of this test."""
    server.files[PATH] = BODY
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setitem(SOURCES, "mnist", Published((server.url,), (described(BODY),)))


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
    assert all(0 <= done <= len(BODY) for _, done, _ in seen)
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


@pytest.mark.parametrize("states_length", [True, False])
def test_an_answer_that_stops_short_leaves_nothing_and_is_asked_for_again(server, folder, states_length):
    server.sends_at_most, server.states_length = 10_000, states_length
    with pytest.raises(FetchError, match=f"{PATH} could not be fetched.*Try again later"):
        fetch("mnist", folder)
    assert os.listdir(folder) == []
    server.sends_at_most = None
    fetch("mnist", folder)
    assert (folder / PATH).read_bytes() == BODY


def test_a_corrupted_file_is_dropped_and_both_checksums_named(server, folder):
    server.files[PATH] = BODY[:-1] + b"?"
    with pytest.raises(FetchError) as caught:
        fetch("mnist", folder)
    assert described(BODY).md5 in str(caught.value)
    assert described(server.files[PATH]).md5 in str(caught.value)
    assert os.listdir(folder) == []


def test_a_server_that_sends_much_more_than_the_file_has_is_cut_off(server, folder):
    server.files[PATH] = bytes(8 << 20)
    server.states_length = False
    seen = []
    with pytest.raises(FetchError, match="longer there than the 102,400 bytes"):
        fetch("mnist", folder, lambda *progress: seen.append(progress))
    assert os.listdir(folder) == []
    assert len(seen) < 2 * 4


@pytest.mark.parametrize("status", [404, 503])
def test_an_error_of_the_server_is_named_and_every_mirror_tried_twice(server, folder, status):
    server.status = status
    with pytest.raises(FetchError, match=f"{status}.*copy the file to {folder}"):
        fetch("mnist", folder)
    assert len(server.asked) == 2


def test_the_next_mirror_helps_out(server, folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refuses connections
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        fetch("mnist", folder, mirrors=[f"{server.url}/nothing/", dead, server.url])
        assert (folder / PATH).read_bytes() == BODY
        (folder / PATH).unlink()
        with pytest.raises(FetchError, match="could not be fetched"):
            fetch("mnist", folder, mirrors=[dead])


def test_a_server_that_dies_leaves_what_it_sent(folder):
    listener = socket.create_server(("127.0.0.1", 0))

    def die():
        for _ in range(2):
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
            with pytest.raises(FetchError, match=f"{closed}.*Permission denied.*Choose another folder"):
                fetch("mnist", closed)
        finally:
            os.seteuid(me)
            Path(closed).chmod(0o755)


def test_a_file_in_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "mnist").write_bytes(b"")
    with pytest.raises(FetchError, match="Choose another folder"):
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
