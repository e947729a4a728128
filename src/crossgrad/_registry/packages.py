"""What installed packages offer by entry points, found without importing them.

[project.entry-points."crossgrad.model"]
my-net = "my_package.nets:MyNet"
"""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, distributions
from typing import Any

from crossgrad._registry.origin import Origin

PREFIX = "crossgrad."  # of the groups; the kind follows


@dataclass(frozen=True)
class Offer:
    """One entry point: a name, and the package that provides it."""

    name: str
    value: str  # module:attribute
    group: str
    origin: Origin

    @property
    def package(self) -> str:
        """Name and version of the package."""
        return str(self.origin)

    def load(self) -> Any:
        """Import it."""
        return EntryPoint(self.name, self.value, self.group).load()


@cache
def _all_offers() -> dict[str, tuple[Offer, ...]]:
    """By kind. Reading the lists of all packages takes tens of milliseconds, so it is done once, and only if needed."""
    found: dict[str, dict[Offer, None]] = {}
    seen: set[str] = set()
    for package in distributions():
        name = package.metadata["Name"]
        if not name or name in seen:  # the first on the path is the one that is imported
            continue
        seen.add(name)
        for point in package.entry_points:
            if point.group.startswith(PREFIX):
                offer = Offer(point.name, point.value, point.group, Origin(name, package.version))
                found.setdefault(point.group.removeprefix(PREFIX), {})[offer] = None
    return {kind: tuple(each) for kind, each in found.items()}


def offers(kind: str) -> tuple[Offer, ...]:
    """What installed packages offer of this kind."""
    return _all_offers().get(kind, ())
