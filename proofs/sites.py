"""Sites of a federation as forked processes, so that a kill and a restart take no time for imports."""

import os
import sys
import time
from pathlib import Path

import torch

import crossgrad._cli.agent  # imported before the first fork
import crossgrad._cli.progress
import crossgrad.federation.agent
from crossgrad.federation.agent import JOURNAL
from crossgrad.federation.file import parse_federation
from crossgrad.federation.journal import read_journal
from crossgrad.federation.rehearsal import FILE, Rehearsal
from crossgrad.federation.replay import replay
from crossgrad.federation.start import data_of_experiment

TEMPLATE = """
name = "proof"
[timing]
lost_after = {lost_after}
gather = 60
{deadline}
[experiment]
model = "{model}"
graph = "{graph}"
algorithm = "{algorithm}"
partition = "{partition}"
seed = {seed}
data = "{data}"
training = {{ steps = {steps}, deterministic = true, evaluations = 4, threads = 1, batch_size = {batch_size} }}
"""
DEFAULTS = {
    "model": "mlp", "graph": "ring", "algorithm": "cga", "partition": "iid", "seed": 0, "data": "digits", "steps": 200,
    "lost_after": 5.0, "deadline": "", "batch_size": 32,
}  # fmt: skip


def federation(sites, **changes):
    """A federation of so many sites that all listen."""
    text = TEMPLATE.format(**(DEFAULTS | changes))
    return parse_federation(text + "".join(f'[[sites]]\nname = "s{i}"\nlisten = "127.0.0.1:1"\n' for i in range(sites)))


class Forked(Rehearsal):
    """Sites that are forks of this process."""

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
            identity, out = self.folder / "sites" / site, self.run_folder(site)
            crossgrad._cli.agent.agent(self.folder / FILE, site, None, identity, out, 0.3, False)
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
    return replay(rehearsal.federation, journals(rehearsal), data_of_experiment(rehearsal.federation))


def log_of(rehearsal, site):
    return Path(rehearsal.folder / "runs" / f"{site}.log").read_text(errors="replace")
