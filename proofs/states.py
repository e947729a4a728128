"""What a run has left: everything but the time it took, to be compared bit for bit."""

import hashlib
import json
from pathlib import Path

from safetensors import safe_open


def final_state(folder: Path) -> dict[str, str]:
    """A digest of every record, of the averaged model, and of all tensors of the last checkpoint, agent by agent."""
    state = _records(folder)
    state["model"] = _digest((folder / "model.safetensors").read_bytes())
    files = list((folder / "checkpoints").glob("*.safetensors"))
    newest = max(int(path.name.split(".")[0].removeprefix("step-")) for path in files)
    for path in files:
        if path.name.startswith(f"step-{newest}."):
            state |= _rows(path)
    return state


def _rows(path: Path) -> dict[str, str]:
    first = int(path.name.split("-")[2])
    rows = {}
    with safe_open(str(path), "pt") as file:
        for name in file.keys():  # noqa: SIM118 - no mapping
            tensor = file.get_tensor(name)
            if not name.startswith("traffic."):  # counted in the records, by agent
                rows |= {f"{name} of agent {first + i}": _digest(row.numpy().tobytes()) for i, row in enumerate(tensor)}
    return rows


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """The names of what is not the same."""
    return sorted(name for name in expected | found if expected.get(name) != found.get(name))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def cells_of(sweep: Path, damaged: str = "") -> dict[str, dict[str, str]]:
    """A digest of every record and of every tensor of the averaged model, for each cell that has ended.

    Args:
        sweep: its folder.
        damaged: a cell that is left out.
    """
    found = {}
    for summary in sweep.glob("cells/*/summary.json"):
        if summary.parent.name != damaged and json.loads(summary.read_text())["ended"] != "interrupted":
            found[summary.parent.name] = _records(summary.parent) | _tensors(summary.parent / "model.safetensors")
    return found


def _records(folder: Path) -> dict[str, str]:
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return {f"record {i}": _digest(json.dumps(r | {"seconds": 0}).encode()) for i, r in enumerate(records)}


def _tensors(path: Path) -> dict[str, str]:
    with safe_open(str(path), "pt") as file:
        return {name: _digest(file.get_tensor(name).numpy().tobytes()) for name in file.keys()}  # noqa: SIM118
