"""Where something that can be named comes from, and which plug-ins this process has used."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Origin:
    """A plug-in.

    Attributes:
        plugin: path of a file, name of an installed package, or name of a module.
        version: the SHA-256 of a file's content, a package's version, or "" for neither.
        is_file: whether it is a file, which --plugin names.
    """

    plugin: str
    version: str = ""
    is_file: bool = False

    def __str__(self) -> str:
        return Path(self.plugin).name if self.is_file else f"{self.plugin} {self.version[:16]}".strip()

    @classmethod
    def of_file(cls, path: Path) -> "Origin":
        """The plug-in that a file is, as long as its content stays the same."""
        return cls(str(path.resolve()), hashlib.sha256(path.read_bytes()).hexdigest(), is_file=True)


_used: set[Origin] = set()
_loading: ContextVar[Origin | None] = ContextVar("loading", default=None)


def used() -> list[Origin]:
    """The plug-ins that this process has used: files it has run, and packages of which it has loaded something."""
    return sorted(_used)


def note(origin: Origin) -> None:
    """Remember that a plug-in is used."""
    _used.add(origin)


def loading() -> Origin | None:
    """The plug-in file that is run at the moment, if there is one."""
    return _loading.get()


@contextmanager
def while_loading(origin: Origin) -> Iterator[None]:
    """Whatever is registered here comes from this plug-in."""
    token = _loading.set(origin)
    try:
        yield
    finally:
        _loading.reset(token)
