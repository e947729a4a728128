"""What could keep a site from taking part, found before it does: each finding says what to do."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crossgrad import __version__
from crossgrad.federation.file import Federation
from crossgrad.federation.identity import CERTIFICATE, Identity, load_certificate, now
from crossgrad.federation.queries import Inquirer, UnreachableError, handlers
from crossgrad.federation.server import serve
from crossgrad.federation.start import SiteData

DAYS_LEFT = 14  # of a certificate, below which one is warned
CLOCK_SECONDS = 60.0  # by which clocks may differ
SLOW_BYTES_PER_SECOND = 125_000  # 1 Mbit/s


class Finding(NamedTuple):
    """One thing that was looked at."""

    good: bool
    sentence: str


def certificate_dates(identity: Identity) -> Finding:
    """How long the certificate is still valid."""
    certificate = load_certificate(identity.certificate_pem, CERTIFICATE)
    days = (certificate.not_valid_after_utc - now()).days
    sentence = f"certificate: {identity.name}, valid for {days} more days"
    return Finding(
        days >= DAYS_LEFT, sentence + ("" if days >= DAYS_LEFT else ". Ask for a new one: crossgrad site init")
    )


def port(federation: Federation, identity: Identity) -> tuple[Finding, object | None]:
    """Whether this site can listen where it says; a server that answers neighbours' questions meanwhile."""
    address = federation.sites[federation.number(identity.name)].listen
    if address is None:
        return Finding(True, "port: this site only dials out"), None
    try:
        server = serve(federation, identity, handlers(federation, identity, lambda: {"step": None, "links": {}}))
    except ValueError as error:
        return Finding(False, f"port: {error} (If the agent is running already, this is as it must be.)"), None
    return Finding(True, f"port: listening at {address}"), server


def neighbour(federation: Federation, identity: Identity, agent: int) -> Iterator[Finding]:
    """Whether a neighbour can be reached, runs the same, and how far and fast the way is."""
    name = federation.sites[agent].name
    if not federation.dials(federation.number(identity.name), agent):
        yield Finding(True, f"{name}: dials us, so nothing can be tried from here")
        return
    try:
        inquirer = Inquirer(federation, identity, name)
        answer = inquirer.status()
        speed = inquirer.bytes_per_second()
    except UnreachableError as error:
        yield Finding(False, f"{name}: {error}. Is its agent, or its doctor, running? Does a firewall close the port?")
        return
    yield Finding(True, f"{name}: answers in {1000 * answer.seconds:.1f} ms, {speed / 1e6:.1f} MB/s")
    if speed < SLOW_BYTES_PER_SECOND:
        yield Finding(False, f"{name}: the way is slow; raise timing.lost_after, or use a smaller model")
    if answer.about.get("crossgrad") != __version__:
        yield Finding(
            False, f"{name}: has crossgrad {answer.about.get('crossgrad')!s:.20}, we {__version__}: install the same"
        )
    if answer.about.get("federation") != federation.digest:
        yield Finding(False, f"{name}: has another federation.toml: compare the files")
    if abs(answer.clock) > CLOCK_SECONDS:
        yield Finding(False, f"{name}: its clock is {answer.clock:+.0f} s off ours: set both by NTP")


def data(federation: Federation, site_data: SiteData) -> Finding:
    """How much data there is."""
    held = len(site_data.test) if site_data.test is not None else 0
    batch = federation.experiment.training.batch_size
    sentence = f"data: {len(site_data.own)} samples of shape {tuple(site_data.own.shape)}, {held} held out"
    few = len(site_data.own) < batch
    return Finding(not few, sentence + (f"; fewer than a batch of {batch}: every batch is all of it" if few else ""))


def folder(path: Path) -> Finding:
    """Whether the run's folder can be written to."""
    probe = path / "doctor.tmp"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        return Finding(False, f"folder: {path}: {error.strerror}. Name another with --out")
    return Finding(True, f"folder: {path} can be written to")
