"""Names of one kind, and what each of them stands for."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from crossgrad._registry import origin as origins
from crossgrad._registry.origin import Origin
from crossgrad._registry.packages import Offer, offers

T = TypeVar("T")

HOW_TO_ADD = "Others come from a file of yours, --plugin FILE.py, or from an installed package that offers them."
REGISTRIES: dict[str, "Registry[Any]"] = {}  # by kind


class Registry(dict[str, T]):
    """A dict of what has a name in experiment files, such as all models.

    Iterating over it gives what is built in, registered or loaded already. A name that is none of these is looked for
    among those that installed packages offer by entry points of the group `crossgrad.KIND`, and loaded when it is asked
    for; `names()` has these names too.

    Args:
        kind: what its entries are: "model", "graph" and so on.
        built_in: the entries of crossgrad itself.
        adapt: from a name and whatever a plug-in registers to what an entry must be; raises ValueError with a sentence
            where it cannot be.

    >>> colours = Registry("colour", {"red": 1}, lambda name, thing: int(thing))
    >>> colours.register("blue", "2", Origin("my_things"))
    >>> colours["blue"], str(colours.origins["blue"]), sorted(colours.names())
    (2, 'my_things', ['blue', 'red'])
    """

    def __init__(self, kind: str, built_in: Mapping[str, T], adapt: Callable[[str, Any], T]) -> None:
        super().__init__(built_in)
        self.kind, self.adapt = kind, adapt
        self.origins: dict[str, Origin] = {}  # of what is not built in
        REGISTRIES[kind] = self

    def register(self, name: str, thing: Any, origin: Origin) -> None:
        """Add something under a name.

        Raises:
            ValueError: the name is taken, or the thing is not of this kind.
        """
        if not isinstance(name, str) or not name or not name.isprintable() or name != name.strip():
            raise ValueError(
                f"a {self.kind} needs a name to be registered under, such as 'my-{self.kind}'; found {name!r}."
            )
        self._check_free(name, thing, origin)
        entry = self.adapt(name, thing)
        self[name], self.origins[name] = entry, origin
        origins.note(origin)

    def _check_free(self, name: str, thing: Any, origin: Origin) -> None:
        """Raise if the name is taken. Only a module that is run again, as in a notebook, may replace its own entry."""
        if dict.__contains__(self, name):
            of = self.origins.get(name)
            if of is None or of.plugin != origin.plugin:
                whose = "is built in" if of is None else f"comes from {of}"
                raise ValueError(
                    f"a {self.kind} needs a name of its own; {origin} registers {name!r}, but one of that name "
                    f"{whose}. Choose another name."
                )
        elif offered := self.offered().get(name):
            raise ValueError(
                f"a {self.kind} needs a name of its own; {origin} registers {name!r}, but the installed package "
                f"{offered.package} offers one of that name. Choose another name."
            )

    def offered(self) -> dict[str, Offer]:
        """What installed packages offer, by name, loaded or not.

        Raises:
            ValueError: two of them, or one and crossgrad itself, use the same name.
        """
        found: dict[str, Offer] = {}
        for offer in offers(self.kind):
            other = found.get(offer.name)
            built_in = dict.__contains__(self, offer.name) and offer.name not in self.origins
            if built_in or (other is not None and other != offer):
                whose = "crossgrad has one of that name itself" if other is None else f"so does {other.package}"
                raise ValueError(
                    f"a {self.kind} needs a name of its own; the installed package {offer.package} offers "
                    f"{offer.name!r}, but {whose}. Uninstall one package, or ask its author for another name."
                )
            found[offer.name] = offer
        return found

    def names(self) -> set[str]:
        """All names, including those of installed packages that have not been loaded yet."""
        return {*self, *self.offered()}

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or name in self.offered()

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  # this is `get`

    def __missing__(self, name: str) -> T:
        offer = self.offered().get(name)
        if offer is None:
            raise KeyError(name)
        try:
            self[name] = self.adapt(name, offer.load())
        except Exception as error:
            raise ValueError(
                f"an installed package must offer what can be loaded; the {self.kind} {name!r} of {offer.package} "
                f"cannot be loaded: {type(error).__name__}: {error}. Install another version of it, or choose another "
                f"{self.kind}."
            ) from error
        self.origins[name] = offer.origin
        origins.note(offer.origin)
        return self[name]

    def name_of(self, entry: Any) -> str | None:
        """The name of an entry that is there; None if it has none."""
        return next((name for name, own in self.items() if own is entry), None)

    def __reduce__(self) -> Any:
        """Another process has a registry of its own."""
        return REGISTRIES.__getitem__, (self.kind,)
