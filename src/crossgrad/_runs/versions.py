"""The versions and the machine that a run's bits depend on."""

import platform
import sys
from importlib.metadata import version
from typing import Any

from crossgrad import __version__
from crossgrad._registry.origin import used


def versions() -> dict[str, Any]:
    """What decides the bits besides the experiment: same machine, same threads, same versions."""
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
        **({"plugins": plugins} if plugins else {}),
    }


def versions_of_plugins() -> dict[str, str]:
    """The plug-ins in use: SHA-256 of files by path, versions of packages by name."""
    return {one.plugin: one.version for one in used()}


def changed_plugins(before: Any) -> list[str]:
    """What has become of the plug-ins that a run began with, in half sentences."""
    now, changed = versions_of_plugins(), []
    for plugin, version_before in before.items() if isinstance(before, dict) else ():
        if plugin in now and now[plugin] != version_before:
            changed.append(f"the plug-in {plugin} has been changed since the run began")
        elif version_before not in now.values():  # a file may have been moved
            changed.append(f"the plug-in {plugin}, with which the run began, is not loaded")
    return changed
