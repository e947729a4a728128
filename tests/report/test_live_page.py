"""The page of a running sweep, as it is served."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.request
from contextlib import contextmanager

import pytest


@contextmanager
def ending(process):
    """Whatever fails meanwhile, the process does not stay."""
    try:
        yield
    finally:
        process.kill()


def test_the_live_page_is_served_on_this_machine_and_ends_with_ctrl_c(folders, tmp_path, forks):
    folder = folders.run(tmp_path / "run", ended="begun")
    command = ["-m", "crossgrad", "report", folder, "--serve", "--port", "0"]
    with forks.start(command, stderr=subprocess.PIPE, text=True) as process, ending(process):
        said = process.stderr.readline()
        address = re.match(r"(http://127\.0\.0\.1:\d+/) shows", said)[1]
        with urllib.request.urlopen(address + "data.json", timeout=20) as answer:
            assert len(json.load(answer)["runs"][0]["curve"]["step"]) == 5
        elsewhere = urllib.request.Request(address, headers={"Host": "elsewhere.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(elsewhere, timeout=20)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == "Ended.\n"
    assert "report.html" not in os.listdir(folder)


def test_a_port_in_use_is_said_in_a_sentence(folders, tmp_path, crossgrad):
    folder = folders.run(tmp_path / "run")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, said = crossgrad("report", folder, "--serve", "--port", port)
    assert status == 2
    assert said.startswith(
        f"crossgrad: --port must be one that is free; {port} cannot be used: Address already in use. Name another"
    )
    assert "Traceback" not in said
