"""Later versions of a federation's file, signed by its authority: they let a running federation take in further sites.

The signature lies beside the file (federation.toml.sig), and is of the file's bytes, by the key whose certificate all
sites have. A later version may add sites behind those that there are, and change addresses and times. What is trained,
and the numbers of the sites, stay.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from crossgrad._storage import atomic
from crossgrad.federation.authority import check_authority
from crossgrad.federation.file import Federation
from crossgrad.federation.growing import check_follows, check_grows
from crossgrad.federation.identity import AUTHORITY_KEY, Identity, load_key
from crossgrad.federation.reading import parse_federation, read_federation
from crossgrad.federation.signatures import has_signed, sign
from crossgrad.federation.written import to_toml

MAX_TEXT_BYTES = 1 << 17  # it must fit into a greeting
MAX_SIGNATURE_BYTES = 1 << 10
SUFFIX = ".sig"
KEPT = re.compile(r"federation-(\d{1,9})\.toml")


class VersionError(ValueError):
    """A version of the file cannot be taken; the text says why."""


class Signed(NamedTuple):
    """The text of a file, and the authority's signature of it."""

    text: str
    signature: bytes


def publish(authority: Path, path: Path) -> Path:
    """Sign a version of the federation's file. Each version number is signed for one content only."""
    check_authority(authority)
    content = _content_of(path, MAX_TEXT_BYTES)
    try:
        federation = parse_federation(content.decode())
        version = federation.version
        if version > 1:
            check_grows(federation)
    except ValueError as error:
        raise VersionError(f"{path}: {error}") from None
    kept = authority / f"federation-{version}.toml"
    if kept.exists() and kept.read_bytes() != content:
        raise VersionError(
            f"a version must be signed for one content only; {kept} is another one of version {version}. Raise "
            f"`version` in {path}."
        )
    atomic.write(kept, [content])
    signature = sign(load_key(authority / AUTHORITY_KEY), content)
    beside = path.with_name(path.name + SUFFIX)
    atomic.write(beside, [signature])
    return beside


def read_signed(path: Path) -> Signed | None:
    """A file with the signature beside it; None if there is none."""
    beside = path.with_name(path.name + SUFFIX)
    if not beside.exists():
        return None
    try:
        return Signed(_content_of(path, MAX_TEXT_BYTES).decode(), _content_of(beside, MAX_SIGNATURE_BYTES))
    except ValueError:
        raise VersionError(f"{path} must be a text; it is not. Restore it.") from None


def successor(present: Federation, signed: Signed, identity: Identity) -> Federation:
    """The federation of a later version.

    Raises:
        VersionError: it is not signed, not later, or changes what must not change.
    """
    check_signature(signed, identity)
    try:
        found = parse_federation(signed.text)
        if found.version <= present.version:
            raise VersionError(
                f"a later version than {present.version} was expected; found version {found.version}. Raise `version`."
            )
        check_follows(present, found)
        check_grows(found)
    except ValueError as error:
        raise VersionError(str(error)) from None
    return found


def check_signature(signed: Signed, identity: Identity) -> None:
    """Raise unless the federation's authority has signed this text."""
    if not identity.encrypted:
        raise VersionError(
            "without certificates there is no authority whose signature could be checked. Stop all sites, and start "
            "them with the later file."
        )
    if not any(has_signed(each.public_key(), signed.text.encode(), signed.signature) for each in identity.trusted):
        raise VersionError(
            f"the federation's authority must have signed a later version of the file; it has not signed this text: "
            f"{signed.text[:40]!r}... `crossgrad federation publish` signs it."
        )


def keep(folder: Path, federation: Federation, signed: Signed | None) -> None:
    """Save a version that a site uses in the folder of its run."""
    path = folder / f"federation-{federation.version}.toml"
    if signed is not None:
        atomic.write(path.with_name(path.name + SUFFIX), [signed.signature])
    if signed is not None or not path.exists():
        atomic.write(path, [(signed.text if signed is not None else to_toml(federation)).encode()])


def kept(folder: Path) -> dict[int, Path]:
    """The files of the versions that a run has used, by their number."""
    found = {KEPT.fullmatch(path.name): path for path in folder.glob("federation-*.toml")}
    return {int(match.group(1)): path for match, path in sorted(found.items(), key=lambda x: x[1].name) if match}


class Known(NamedTuple):
    """A version, with its signature if there is one."""

    federation: Federation
    signed: Signed | None


def read_known(path: Path, folder: Path, identity: Identity) -> Known:
    """The version that a site begins with: that of its file, or a later one that its run has taken meanwhile.

    Raises:
        ValueError: a file or signature is not what it must be; the text says what to do.
    """
    given = Known(read_federation(path), read_signed(path) if identity.encrypted else None)
    if given.signed is not None:
        check_signature(given.signed, identity)
    used = kept(folder)
    if not used:
        return given
    last, number = used[max(used)], max(used)
    if number <= given.federation.version:
        check_follows(read_federation(last), given.federation)
        return given
    signed = read_signed(last)
    if signed is None:
        raise VersionError(
            f"{last} must have its signature beside it, as the run wrote both; it is missing. Restore it."
        )
    return Known(successor(given.federation, signed, identity), signed)


class Later:
    """Notes the latest version that has arrived: in place of the site's file, or from a neighbour.

    Args:
        present: the version in use.
        identity: of the site.
        path: the site's file, which is looked at now and then.
        say: writes a sentence.
    """

    def __init__(self, present: Federation, identity: Identity, path: Path | None, say: Callable[[str], None]) -> None:
        self.present, self.identity, self.path, self.say = present, identity, path, say
        self.found: Known | None = None
        self._seen: tuple[int, ...] | None = None
        self._said = ""

    def offer(self, signed: Signed, whence: str) -> None:
        """Take note of a version if it is signed, later, and fits; print the result."""
        if self.found is not None and self.found.signed is not None and signed.text == self.found.signed.text:
            return  # every neighbour hands it on
        try:
            federation = successor(self.found.federation if self.found else self.present, signed, self.identity)
        except VersionError as error:
            sentence = f"does not take a version of the federation's file from {whence}: {error}"
        else:
            self.found = Known(federation, signed)
            added = [entry.name for entry in federation.sites[len(self.present.sites) :]]
            new = f", with {', '.join(added)}" if added else ""
            sentence = f"has version {federation.version} of the federation's file from {whence}{new}."
        if sentence != self._said:
            self._said = sentence
            self.say(sentence)

    def look(self) -> Known | None:
        """The latest version so far; the site's file is read again if it has changed."""
        if self.path is not None and (times := self._times(self.path)) not in (self._seen, None):
            self._seen = times
            try:
                signed = read_signed(self.path)
                if signed is not None and parse_federation(signed.text).version > self.present.version:
                    self.offer(signed, str(self.path))
            except (OSError, ValueError):
                return self.found  # it is just being written
        return self.found

    @staticmethod
    def _times(path: Path) -> tuple[int, ...] | None:
        """When file and signature were written last; None while one is missing."""
        try:
            return tuple(each.stat().st_mtime_ns for each in (path, path.with_name(path.name + SUFFIX)))
        except OSError:
            return None


def versions_of(federation: Federation, folders: Iterable[Path]) -> list[Federation]:
    """All versions that a run has used, by the folders of its sites, in their order."""
    paths = {number: path for folder in folders for number, path in kept(folder).items()}
    found = {number: read_federation(path) for number, path in paths.items()} | {federation.version: federation}
    return [found[number] for number in sorted(found)]


def _content_of(path: Path, limit: int) -> bytes:
    with atomic.open_regular(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise VersionError(f"{path} must have at most {limit:,} bytes; it has more. Shorten it.")
    return content
