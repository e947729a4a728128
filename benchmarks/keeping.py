"""Where figures are kept, and how they are printed: shared by the benchmarks."""

import json
import os
import platform
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """What the figures were taken on."""
    import torch

    name = next((line.split(":")[1].strip() for line in _cpu() if line.startswith("model name")), platform.machine())
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, PyTorch {torch.__version__}"


def _cpu() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []


def keep(name: str, found: dict, text: str) -> None:
    """Keep figures as JSON and as Markdown, and print them."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(text)
    print(text)


def table(head: list[str], rows: list[list[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)
