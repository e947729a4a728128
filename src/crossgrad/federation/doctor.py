"""Checks of everything that could keep a site from taking part. Each finding says what to do."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crossgrad import __version__
from crossgrad.federation.certificates import REVOKED, load_certificates, now, revocation_lists
from crossgrad.federation.file import Federation
from crossgrad.federation.identity import CERTIFICATE, REQUEST, Identity, read_pem
from crossgrad.federation.queries import Inquirer, Told, UnreachableError, Way, handlers
from crossgrad.federation.server import serve
from crossgrad.federation.start import SiteData, start
from crossgrad.federation.tls_refusals import TlsRefusals

DAYS_LEFT = 14  # of a certificate, below which one is warned
CLOCK_SECONDS = 60.0  # by which clocks may differ
ADVICE = ". Is its agent, or its doctor, running? Does a firewall close the port?"
SLOW_BYTES_PER_SECOND = 125_000  # 1 Mbit/s


class Finding(NamedTuple):
    """The result of one check."""

    good: bool
    sentence: str


def certificate_dates(identity: Identity) -> Finding:
    """How long the certificate, and those of intermediate authorities, are still valid."""
    if not identity.encrypted:
        return Finding(True, "certificate: none. NOTHING IS ENCRYPTED, as --insecure was given")
    shown = load_certificates(identity.certificate_pem, CERTIFICATE)
    days = (min(each.not_valid_after_utc for each in shown) - now()).days
    sentence = f"certificate: {identity.name}, valid for {days} more days"
    advice = f". Have {REQUEST} signed again, put the new certificate in place, and start the agent again"
    return Finding(days >= DAYS_LEFT, sentence + ("" if days >= DAYS_LEFT else advice))


def revocations(identity: Identity) -> Finding:
    """Whether there is a list of revoked certificates, and how old it is."""
    path = identity.folder / REVOKED
    if not identity.encrypted or not path.exists():
        return Finding(True, f"revoked certificates: no {REVOKED}, so no certificate counts as revoked")
    lists = revocation_lists(read_pem(path))
    count = sum(len(each) for each in lists)
    until = min((each.next_update_utc for each in lists if each.next_update_utc is not None), default=None)
    if until is not None and until < now():
        sentence = f"{REVOKED} was to be replaced by {until:%Y-%m-%d}. Ask who runs the authority for the present one"
        return Finding(False, f"revoked certificates: {sentence}")
    return Finding(True, f"revoked certificates: {count}")


def port(
    federation: Federation, identity: Identity, told: Told, refusals: TlsRefusals | None = None
) -> tuple[Finding, object | None]:
    """Check whether this site can listen at its address; meanwhile its server answers neighbours' queries."""
    address = federation.sites[federation.number(identity.name)].listen
    if address is None:
        return Finding(True, "port: this site only dials out"), None
    try:
        methods = handlers(federation, identity, lambda: {"step": None, "links": {}}, told)
        server = serve(federation, identity, methods, refusals or TlsRefusals(lambda sentence: None))
    except ValueError as error:
        return Finding(False, f"port: {error} (If the agent is running already, this is as it must be.)"), None
    return Finding(True, f"port: listening at {address}"), server


class Neighbours:
    """Checks of the connections to all neighbours: measured from here, or reported by those that can only dial out.

    Args:
        federation: what all sites have agreed on.
        identity: this site's.
    """

    def __init__(self, federation: Federation, identity: Identity) -> None:
        self.federation, self.identity = federation, identity
        self.found: dict[int, list[Finding]] = {}  # by neighbour; missing ones are tried again
        self._problems: dict[int, str] = {}
        self.refusals = TlsRefusals(lambda sentence: None)  # of the server that answers meanwhile

    def told(self, site: str, way: Way) -> None:
        """Take note of what a neighbour has measured on its connection to this site."""
        agent = self.federation.number(site)
        if self.federation.sites[agent].listen is None:
            self.found[agent] = _judged(site, way, "measured there")

    def look(self) -> bool:
        """Try all neighbours that have not been reached yet; return whether all have been."""
        neighbours = self.federation.neighbours(self.federation.number(self.identity.name))
        for agent in neighbours:
            entry = self.federation.sites[agent]
            if agent in self.found or entry.listen is None:
                continue
            try:
                self.found[agent] = list(_reached(self.federation, self.identity, entry.name))
            except UnreachableError as error:
                self._problems[agent] = str(error).rstrip(".") + (ADVICE if error.unanswered else "")
        return all(agent in self.found for agent in neighbours)

    def findings(self) -> Iterator[Finding]:
        """The findings about all neighbours."""
        for agent in self.federation.neighbours(self.federation.number(self.identity.name)):
            name = self.federation.sites[agent].name
            if agent in self.found:
                yield from self.found[agent]
            elif self.federation.sites[agent].listen is None:
                yield Finding(False, f"{name}: only dials out, and {self._not_come()}")
            else:
                yield Finding(False, f"{name}: {self._problems.get(agent, 'has not been tried')}")

    def _not_come(self) -> str:
        if (refused := self.refusals.so_far()) == 0:
            return "has not dialled us. Run its doctor at the same time, with a longer --wait"
        return (
            f"has not come through TLS, in which {refused} connection{'s' * (refused > 1)} to our port ended. Its "
            "doctor says why; compare authority.crt and the clocks of both machines"
        )


def _judged(name: str, way: Way, how: str) -> list[Finding]:
    slow = way.bytes_per_second < SLOW_BYTES_PER_SECOND
    advice = "; the way is slow: raise timing.lost_after, or use a smaller model" if slow else ""
    return [Finding(not slow, f"{name}: {way} ({how}){advice}")]


def _reached(federation: Federation, identity: Identity, name: str) -> Iterator[Finding]:
    """The finding about a neighbour that answers: latency, bandwidth, and whether it has the same file and version."""
    inquirer = Inquirer(federation, identity, name)
    answer, way = inquirer.status(), inquirer.way()
    inquirer.tell(way)
    yield from _judged(name, way, "measured here")
    if answer.about.get("crossgrad") != __version__:
        yield Finding(
            False, f"{name}: has crossgrad {answer.about.get('crossgrad')!s:.20}, we {__version__}: install the same"
        )
    if answer.about.get("federation") != federation.file_digest:
        theirs = answer.about.get("version")
        other = "federation.toml" if theirs == federation.version else f"version of federation.toml ({theirs!s:.9})"
        yield Finding(False, f"{name}: has another {other}: compare the files")
    if abs(answer.clock) > CLOCK_SECONDS:
        yield Finding(False, f"{name}: its clock is {answer.clock:+.0f} s off ours: set both by NTP")


def data(federation: Federation, agent: int, site_data: SiteData) -> Finding:
    """The finding about the amount of data, and whether the model can be trained on it."""
    held = len(site_data.test) if site_data.test is not None else 0
    batch = federation.experiment.training.batch_size
    sentence = f"data: {len(site_data.own)} samples of shape {tuple(site_data.own.shape)}, {held} held out"
    few = len(site_data.own) < batch
    try:
        start(federation, agent, site_data)
    except (ValueError, RuntimeError) as error:
        return Finding(False, f"{sentence}; the model cannot be trained on it: {error}")
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
