"""The versions and the machine on which a run's bits depend."""

import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from crossgrad import __version__
from crossgrad._registry.origin import used


def versions() -> dict[str, Any]:
    """Everything besides the experiment on which the bits depend: machine, threads, versions."""
    import torch

    plugins = versions_of_plugins()
    packages = ("torch", "numpy", "scipy", "scikit-learn")
    return {
        "python": sys.version.split()[0],
        "machine": platform.platform(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "crossgrad": __version__,
        **{package: version(package) for package in packages},
        **({"commit": commit()} if commit() else {}),
        **({"plugins": plugins} if plugins else {}),
    }


@cache
def commit() -> str:
    """The commit, if crossgrad runs from its own repository; otherwise an empty text."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists() or Path(__file__).parents[1] != root / "src" / "crossgrad":
        return ""
    try:
        command = ["git", "-C", str(root), "rev-parse", "--short=10", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()


def versions_of_plugins() -> dict[str, str]:
    """The plug-ins in use: SHA-256 of files by path, versions of packages by name."""
    return {one.plugin: one.version for one in used()}


def changed_plugins(before: Any) -> list[str]:
    """How the plug-ins that a run began with have changed, as parts of sentences."""
    now, changed = versions_of_plugins(), []
    for plugin, version_before in before.items() if isinstance(before, dict) else ():
        if plugin in now and now[plugin] != version_before:
            changed.append(f"the plug-in {plugin} has been changed since the run began")
        elif version_before not in now.values():  # a file may have been moved
            changed.append(f"the plug-in {plugin}, with which the run began, is not loaded")
    return changed
