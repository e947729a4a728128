"""A federation as the text of its file."""

from typing import Any

import tomli_w

from crossgrad.experiments import files
from crossgrad.federation.file import Federation


def to_toml(federation: Federation) -> str:
    """A federation as its file."""
    timing = {key: value for key, value in vars(federation.timing).items() if value is not None}
    sites = [{key: value for key, value in vars(entry).items() if value is not None} for entry in federation.sites]
    table: dict[str, Any] = {
        "name": federation.name,
        "version": federation.version,
        "timing": timing,
        "experiment": files.to_table(federation.experiment),
        "sites": sites,
    }
    table["experiment"].pop("faults", None)
    if federation.classes is not None:
        table["classes"] = federation.classes
    return tomli_w.dumps(table)
