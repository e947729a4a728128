"""What all proofs do alike: lines of progress, the environment of the commands, the result as JSON."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from crossgrad import __version__

SOURCE = Path(__file__).parents[1] / "src"


def say(progress: str) -> None:
    """Print where the proof is: over the line before on a terminal, on a line of its own elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
    else:
        print(progress, file=sys.stderr, flush=True)


def environment(**more: str) -> dict[str, str]:
    """For commands that use this checkout, with one thread and without PyTorch's warnings."""
    path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH", ""))))
    return os.environ | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONPATH": path} | more


def finish(result: dict[str, Any], out: Path | None, problems: list[str]) -> None:
    """Print the result, write it to a file, and end with status 1 if something did not hold."""
    text = json.dumps(result | {"crossgrad": __version__, "torch": torch.__version__}, indent=2)
    print("\n" + text)
    if out:
        out.write_text(text + "\n")
    sys.exit(bool(problems))
