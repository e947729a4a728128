"""Objects sent to another process, with the plug-in files that they need there."""

import pickle
from dataclasses import dataclass
from typing import Any

from crossgrad._registry.files import load_plugin
from crossgrad._registry.origin import Origin, used


@dataclass(frozen=True)
class Shipment:
    """An object, pickled, and the plug-in files that this process has run."""

    plugins: tuple[Origin, ...]
    content: bytes

    @classmethod
    def of(cls, thing: Any) -> "Shipment":
        """Pack an object."""
        return cls(tuple(origin for origin in used() if origin.is_file), pickle.dumps(thing))

    def unpack(self) -> Any:
        """The object, once the plug-in files are run here too.

        Raises:
            ValueError: one of them is not what it was.
        """
        for origin in self.plugins:
            if load_plugin(origin.plugin) != origin:
                raise ValueError(
                    f"a plug-in must stay as it was when the command began; {origin.plugin} has changed. Begin again."
                )
        return pickle.loads(self.content)
