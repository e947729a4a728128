"""The wire between sites: a link with mutual TLS against a raw TCP socket, and its share of a step of the paper's CNN.

Two processes on one machine swap messages of a model's size: both send, and both wait for the other's.
"""

import multiprocessing
import os
import queue
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import keeping
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "proofs"))
from sites import federation

from crossgrad import models
from crossgrad.federation.identity import Identity
from crossgrad.federation.links import Connections
from crossgrad.federation.messages import Data
from crossgrad.federation.rehearsal import Rehearsal
from crossgrad.models.zoo import MODELS

SWAPS, BATCH, IMAGE, NEIGHBOURS = 12, 32, (3, 32, 32), 2
SPAWN = multiprocessing.get_context("spawn")


class Inbox:
    """A listener that keeps what arrives."""

    def __init__(self):
        self.payloads, self.there = queue.SimpleQueue(), threading.Event()

    def connected(self, peer):
        self.there.set()

    def disconnected(self, peer, left): ...

    def received(self, peer, message, payload):
        self.payloads.put(payload)

    def say(self, sentence): ...

    def where(self):
        return {"step": 0, "epoch": 0, "links": {}}


def by_link(side, made, folder, content, found):
    name = f"s{side}"
    inbox = Inbox()
    links = Connections(made, Identity.load(folder / "sites" / name, name), inbox, 2 * len(content))
    links.start()
    inbox.there.wait(60)

    def swap():
        links.send(1 - side, Data(1, 0, 0, 1, 1), content)
        inbox.payloads.get(timeout=60)

    found.put(timed(swap))
    time.sleep(0.5)
    links.stop()


def by_socket(side, port, content, found):
    if side == 0:
        with socket.create_server(("127.0.0.1", port)) as server:
            other, _ = server.accept()
    else:
        other = _dialled(port)
    inbox = bytearray(len(content))

    def swap():
        sender = threading.Thread(target=other.sendall, args=(content,))
        sender.start()
        view, got = memoryview(inbox), 0
        while got < len(content):
            got += other.recv_into(view[got:])
        sender.join()

    found.put(timed(swap))
    other.close()


def _dialled(port):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.05)


def timed(swap):
    """Median seconds and mean CPU seconds of a swap, at this end."""
    swap()  # the first one grows windows and buffers
    seconds, cpu = [], time.process_time()
    for _ in range(SWAPS):
        began = time.perf_counter()
        swap()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), (time.process_time() - cpu) / SWAPS


def both(target, *arguments):
    """Both ends at work: the slower one's seconds, and the mean CPU seconds of an end."""
    found = SPAWN.Queue()
    ends = [SPAWN.Process(target=target, args=(side, *arguments, found)) for side in (0, 1)]
    for each in ends:
        each.start()
    ways = [found.get(timeout=180) for _ in ends]
    for each in ends:
        each.join()
    return max(seconds for seconds, _ in ways), statistics.mean(cpu for _, cpu in ways)


def gradient_seconds(module):
    """CPU seconds of one gradient on a batch, with one thread."""
    torch.set_num_threads(1)
    inputs, labels = torch.randn(BATCH, *IMAGE), torch.arange(BATCH) % 10
    seconds = []
    for _ in range(8):
        began = time.process_time()
        torch.nn.functional.cross_entropy(module(inputs), labels).backward()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds)


def main():
    module = models.build(MODELS["cnn"](), IMAGE, 10, 0)
    content = os.urandom(4 * sum(p.numel() for p in module.parameters()))
    rehearsal = Rehearsal.prepare(federation(2, lost_after=30), Path(tempfile.mkdtemp(prefix="wire-")))
    port = int(rehearsal.federation.sites[0].listen.rpartition(":")[2])
    link, link_cpu = both(by_link, rehearsal.federation, rehearsal.folder, content)
    raw, raw_cpu = both(by_socket, port, content)
    gradient = gradient_seconds(module)
    # On a ring, CGA takes 3 gradients, and swaps a model and a cross-gradient with each of 2 neighbours.
    shares = {
        "DPSGD on a ring": NEIGHBOURS * link_cpu / (gradient + NEIGHBOURS * link_cpu),
        "CGA on a ring": 2 * NEIGHBOURS * link_cpu / (3 * gradient + 2 * NEIGHBOURS * link_cpu),
    }
    megabytes = len(content) / 1e6
    rates = {"link": 2 * megabytes / link, "raw TCP socket": 2 * megabytes / raw}
    found = {
        "machine": keeping.machine(),
        "load at the end": os.getloadavg()[0],
        "MB": megabytes,
        "seconds of a swap": {"link": link, "raw TCP socket": raw},
        "CPU seconds of a swap, each end": {"link": link_cpu, "raw TCP socket": raw_cpu},
        "MB/s, both ways": rates,
        "CPU seconds of a gradient": gradient,
        "share of a step's CPU on the wire": shares,
    }
    rows = [
        [what, f"{1e3 * found['seconds of a swap'][what]:.0f}", f"{1e3 * cpu:.0f}", f"{rates[what]:.0f}"]
        for what, cpu in found["CPU seconds of a swap, each end"].items()
    ]
    text = f"A swap of {megabytes:.1f} MB, the paper's CNN for 32x32 images, between two processes; "
    text += f"load of the machine {os.getloadavg()[0]:.1f}.\n\n"
    text += keeping.table(["", "ms", "CPU ms of an end", "MB/s, both ways"], rows)
    said = ", ".join(f"{what} {100 * share:.0f} %" for what, share in shares.items())
    text += f"\nOf a step's CPU time (batch {BATCH}, a gradient {1e3 * gradient:.0f} ms) the wire takes: {said}.\n"
    keeping.keep("wire", found, text)


if __name__ == "__main__":
    main()
