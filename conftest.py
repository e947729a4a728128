"""Plug-ins that a test or a docstring example registers are gone after it; processes share compiled sources."""

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # several tests run at a time, and their matrices are small

import pytest

from crossgrad._registry import origin, packages
from crossgrad.plugins import KINDS

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each process that a test starts would compile all of crossgrad anew
sys.dont_write_bytecode = False


@pytest.fixture(autouse=True)
def registries():
    """Put back the registries as they were before the test."""
    before = {kind: (dict(entries), dict(entries.origins)) for kind, entries in KINDS.items()}
    used = set(origin._used)
    yield
    for kind, (entries, origins) in before.items():
        KINDS[kind].clear()
        KINDS[kind].update(entries)
        KINDS[kind].origins.clear()
        KINDS[kind].origins.update(origins)
    origin._used.clear()
    origin._used.update(used)
    packages._all_offers.cache_clear()
