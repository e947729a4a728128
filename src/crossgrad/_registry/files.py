"""Plug-in files: Python that a user names with --plugin, and nothing else ever runs."""

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from crossgrad._registry.origin import Origin, note, used, while_loading

MAX_PLUGIN_BYTES = 1 << 22


def load_plugin(path: str | Path) -> Origin:
    """Run a plug-in file, once in a process; what it registers can be named from then on.

    Args:
        path: a Python file that calls `crossgrad.register`. It may import what is installed or lies beside it.

    Raises:
        ValueError: there is no such file, or it fails; the sentence names file, line and reason.
    """
    file = Path(path)
    if file.suffix != ".py" or not file.is_file():
        raise ValueError(f"--plugin must name a Python file, such as my_things.py; found {path}.")
    if file.stat().st_size > MAX_PLUGIN_BYTES:
        raise ValueError(
            f"a plug-in file must have at most {MAX_PLUGIN_BYTES:,} bytes; {path} has {file.stat().st_size:,}. Move a "
            "part of it into a module that it imports."
        )
    origin = Origin.of_file(file)
    if origin in used():
        return origin
    name = f"crossgrad_plugin_{file.stem}_{origin.version[:8]}"  # the same in every process, for pickle
    spec = spec_from_file_location(name, origin.plugin)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    folder = str(Path(origin.plugin).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        with while_loading(origin):
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(
            f"the plug-in {path} cannot be used{_line_of_error(error, origin)}: {_reason_of_plugin(error)}"
        ) from error
    note(origin)
    return origin


def _line_of_error(error: Exception, origin: Origin) -> str:
    if isinstance(error, SyntaxError):
        return f" (line {error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == origin.plugin]
    return f" (line {lines[-1]})" if lines else ""


def _reason_of_plugin(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
