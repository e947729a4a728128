"""A federation on one machine: every site a process of its own, with real certificates, on the loopback interface."""

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from crossgrad._storage import atomic
from crossgrad.federation.authority import install, make_authority, make_request, sign_request
from crossgrad.federation.file import Federation, SiteEntry
from crossgrad.federation.written import to_toml

FILE = "federation.toml"


def free_ports(count: int) -> list[int]:
    """Ports that are free at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@dataclass
class Rehearsal:
    """The sites of a federation as processes of this machine."""

    federation: Federation
    folder: Path
    options: list[str] = field(default_factory=list)  # of `crossgrad agent`, for all sites
    environment: dict[str, str] = field(default_factory=dict)
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @classmethod
    def prepare(cls, federation: Federation, folder: Path) -> "Rehearsal":
        """Make an authority, every site's identity, and a file with addresses on the loopback interface."""
        folder.mkdir(parents=True, exist_ok=True)
        ports = free_ports(len(federation.sites))
        names = [entry.name for entry in federation.sites]
        entries = [
            SiteEntry(entry.name, None if entry.listen is None else f"127.0.0.1:{port}", None, entry.samples)
            for entry, port in zip(federation.sites, ports, strict=True)
        ]
        local = Federation(
            federation.name,
            federation.version,
            federation.experiment,
            tuple(entries),
            federation.timing,
            federation.graph,
            federation.classes,
        )
        make_authority(folder / "authority", federation.name)
        for name in names:
            request = make_request(folder / "sites" / name, name)
            certificate = sign_request(folder / "authority", request, name)
            install(folder / "sites" / name, certificate, folder / "authority")
        atomic.write(folder / FILE, [to_toml(local).encode()])
        return cls(local, folder)

    def run_folder(self, site: str) -> Path:
        return self.folder / "runs" / site

    def file_of(self, site: str) -> Path:
        """The federation's file as this site has it."""
        return self.folder / FILE

    def start(self, site: str) -> None:
        """Start the process of a site; its output goes to a file beside its run."""
        (self.folder / "runs").mkdir(exist_ok=True)
        command = [sys.executable, "-m", "crossgrad", "agent", str(self.file_of(site)), "--site", site]
        command += ["--identity", str(self.folder / "sites" / site), "--out", str(self.run_folder(site))]
        with (self.folder / "runs" / f"{site}.log").open("ab") as log:
            self.processes[site] = subprocess.Popen(
                [*command, *self.options], stdout=log, stderr=log, env=os.environ | self.environment
            )

    def kill(self, site: str) -> None:
        """Kill the process of a site."""
        self.processes[site].kill()
        self.processes[site].wait()

    def wait(self, timeout: float | None = None) -> dict[str, int]:
        """Wait for all processes, and return their exit statuses."""
        return {site: process.wait(timeout) for site, process in self.processes.items()}

    def stop(self) -> None:
        """Ask all processes to stop, and kill those that do not."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
