"""The environment that `make setup` installs is pinned completely."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
NOT_INSTALLED = {"mlflow", "wandb"}  # large, and for one option each


def required(requirement, seen):
    """The names of this package and of all that it needs here."""
    key = (name := canonicalize_name(requirement.name), frozenset(requirement.extras))
    if key in seen:
        return
    seen.add(key)
    yield name
    try:
        lines = requires(requirement.name) or []
    except PackageNotFoundError:
        lines = []
    for inner in map(Requirement, lines):
        environments = [{"extra": extra} for extra in ("", *requirement.extras)]
        if inner.marker is None or any(inner.marker.evaluate(environment) for environment in environments):
            yield from required(inner, seen)


def test_every_package_that_make_setup_installs_is_pinned():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, build = settings["project"], [*settings["build-system"]["requires"], "editables"]  # of --editable
    extras = project["optional-dependencies"]
    installed = {name: lines for name, lines in extras.items() if name not in NOT_INSTALLED}
    lines = [*project["dependencies"], *(line for extra in installed.values() for line in extra)]
    seen = set()
    names = {name for line in lines for name in required(Requirement(line), seen)} - {"crossgrad", "triton"}
    pinned = dict(re.findall(r"^([^#\s]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    missing = {name for name in names if not name.startswith(("nvidia-", "cuda-"))}
    missing -= {canonicalize_name(name) for name in pinned}
    missing |= set(build) - set(pinned)
    assert not missing, "`make constraints` pins them"
    assert pinned["torch"] == "2.13.0"


def test_the_package_itself_pins_nothing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [line for line in project["dependencies"] if re.search(r"==|<|~=", line)]
