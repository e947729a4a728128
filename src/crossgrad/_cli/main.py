"""The command line. The modules that do the work are imported only when a command runs: they import PyTorch."""

import os
import sys
from importlib import import_module

import typer

from crossgrad._cli.app import app
from crossgrad._numerics.out_of_memory import NO_MEMORY, lacks_memory

COMMANDS = (
    "run", "resume", "demo", "sweep", "tune", "benchmark", "advise", "query", "pack", "reproduce", "report", "theory",
    "examples", "list", "graph", "partition", "data", "site", "agent", "doctor", "federation", "federation_try",
    "federation_status", "federation_replay", "federation_average",
)  # fmt: skip

for _command in COMMANDS:
    import_module(f"crossgrad._cli.{_command}")  # adds the command to the app


def main() -> None:
    """Run the command; a user's mistake ends in one sentence and status 2."""
    try:
        try:
            app()
        finally:
            _flush()
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not lacks_memory(error):
            raise
        reported = getattr(error, "reported", False)  # by a process that is not rank 0
        if not reported and os.environ.get("LOCAL_RANK", "0") == "0":  # of several processes on a machine one says it
            typer.echo(f"crossgrad: {_sentence(error)}", err=True)
        sys.exit(2)


def _flush() -> None:
    """Write what is left of standard output, or Python would do so as it ends, and say a full disk in its own way."""
    if sys.stdout is None:  # it was closed before the start
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more
        if isinstance(error, BrokenPipeError):  # who read it has gone, as in `crossgrad list | head -1`
            sys.exit(1)
        raise


def _sentence(error: Exception) -> str:
    from crossgrad.experiments.config import tidy

    if lacks_memory(error):
        return NO_MEMORY
    if isinstance(error, OSError) and error.strerror:
        return tidy(f"{error.filename or 'the disk'}: {error.strerror}.")
    return tidy(str(error))
