"""Sites of a federation as forked processes, so that a kill and a restart take no time for imports."""

import dataclasses
import os
import queue
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import torch

import crossgrad._cli.agent  # imported before the first fork
import crossgrad._cli.progress
import crossgrad.federation.agent
from crossgrad.federation.journal import JOURNAL, read_journal
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.rehearsal import FILE, Rehearsal, free_ports
from crossgrad.federation.replay import replay
from crossgrad.federation.secret import secret_of
from crossgrad.federation.start import data_of_versions
from crossgrad.federation.versions import versions_of
from crossgrad.federation.written import to_toml

CHECKPOINT_SECONDS = 0.3
TEMPLATE = """
name = "proof"
[timing]
lost_after = {lost_after}
gather = {gather}
{deadline}
[experiment]
model = "{model}"
graph = "{graph}"
algorithm = "{algorithm}"
partition = "{partition}"
seed = {seed}
data = "{data}"
gossip = {gossip}
training = {{ steps = {steps}, deterministic = true, evaluations = 4, threads = 1, batch_size = {batch_size} }}
"""
DEFAULTS = {
    "model": "mlp", "graph": "ring", "algorithm": "cga", "partition": "iid", "seed": 0, "data": "digits", "steps": 200,
    "lost_after": 5.0, "gather": 60, "deadline": "", "batch_size": 32, "gossip": "{}",
}  # fmt: skip


def federation(sites, silent=(), **changes):
    """A federation of so many sites; all listen but those that are `silent`."""
    text = TEMPLATE.format(**(DEFAULTS | changes))
    for number in range(sites):
        text += f'[[sites]]\nname = "s{number}"\n' + ("" if number in silent else 'listen = "127.0.0.1:1"\n')
    return parse_federation(text)


class Forwarder:
    """A plain TCP forwarder in a thread: what comes in goes to a port, so many seconds later, until it is cut."""

    def __init__(self, port, to, delay=0.0):
        self.to, self.delay, self.pairs, self.works = to, delay, [], True
        self.server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Let nothing through, as if a cable was pulled: connections stay open, but silent."""
        self.works = False

    def mend(self):
        """Let new connections through again; the old ones are gone."""
        for pair in self.pairs:
            for each in pair:
                each.close()
        self.pairs, self.works = [], True

    def _accept(self):
        while True:
            near, _ = self.server.accept()
            if not self.works:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:  # the site has not begun to listen; who dials tries again
                near.close()
                continue
            self.pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source, sink):
        late = queue.SimpleQueue()
        if self.delay:
            threading.Thread(target=self._later, args=(late, sink), daemon=True).start()
        try:
            while data := source.recv(1 << 16):
                if self.works and self.delay:
                    late.put((time.monotonic() + self.delay, data))
                elif self.works:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _later(self, late, sink):
        with suppress(OSError):
            while True:
                when, data = late.get()
                time.sleep(max(0.0, when - time.monotonic()))
                sink.sendall(data)


def behind(rehearsal, forwarded, delay=0.0):
    """Put forwarders before these sites: every other site dials them through those."""
    ports, entries, found = free_ports(len(forwarded)), [], {}
    for entry in rehearsal.federation.sites:
        if entry.name in forwarded:
            port = ports[len(found)]
            found[entry.name] = Forwarder(port, int(entry.listen.rpartition(":")[2]), delay)
            entry = dataclasses.replace(entry, address=f"127.0.0.1:{port}")
        entries.append(entry)
    rehearsal.federation = dataclasses.replace(rehearsal.federation, sites=tuple(entries))
    (rehearsal.folder / FILE).write_text(to_toml(rehearsal.federation))
    return found


class Forked(Rehearsal):
    """Sites that are forks of this process."""

    data: dict = {}  # noqa: RUF012  # of its own, by site
    places = None  # namespaces, and the side of every site
    sides: dict = {}  # noqa: RUF012

    def in_namespaces(self, places, sides):
        """Let sites run on either side of a cable; their addresses are those of their side."""
        self.places, self.sides, entries = places, sides, []
        for entry in self.federation.sites:
            port = entry.listen.rpartition(":")[2]
            entries.append(dataclasses.replace(entry, listen=f"{places.address(sides[entry.name])}:{port}"))
        self.federation = dataclasses.replace(self.federation, sites=tuple(entries))
        (self.folder / FILE).write_text(to_toml(self.federation))

    def start(self, site):
        (self.folder / "runs").mkdir(exist_ok=True)
        pid = os.fork()
        if pid:
            self.processes[site] = Child(pid)
            return
        status = 1
        try:
            log = os.open(self.folder / "runs" / f"{site}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            torch.set_num_threads(1)
            if self.places is not None:
                self.places.enter(self.sides[site])
            identity, out = self.folder / "sites" / site, self.run_folder(site)
            own = self.data.get(site)
            crossgrad._cli.agent.agent(self.file_of(site), site, own, identity, out, CHECKPOINT_SECONDS, False)
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)


class Child:
    """A forked process, as `subprocess` would show it."""

    def __init__(self, pid):
        self.pid, self.status = pid, None

    def poll(self):
        if self.status is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if done else None
        return self.status

    def wait(self, timeout=None):
        until = time.monotonic() + (timeout or 1e9)
        while self.poll() is None:
            if time.monotonic() > until:
                raise TimeoutError(f"process {self.pid} has not ended")
            time.sleep(0.02)
        return self.status

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(9)


def journals(rehearsal):
    names = [entry.name for entry in rehearsal.federation.sites]
    return {agent: read_journal(rehearsal.run_folder(name) / JOURNAL) for agent, name in enumerate(names)}


def repeated(rehearsal):
    """Whether every site's model is repeated from the journals."""
    secrets = {
        agent: secret_of(rehearsal.run_folder(entry.name)) for agent, entry in enumerate(rehearsal.federation.sites)
    }
    versions = versions_of(rehearsal.federation, map(rehearsal.run_folder, rehearsal.processes))
    return replay(versions[-1], journals(rehearsal), data_of_versions(versions), secrets, versions[:-1])


def log_of(rehearsal, site):
    return Path(rehearsal.folder / "runs" / f"{site}.log").read_text(errors="replace")
