"""Where the time goes in steps that miss their targets: cProfile's figures. `make bench` runs it.

Own time of a function and of what it calls inside PyTorch, NumPy and SciPy, which cProfile counts for themselves where
they are functions. Everything is a little slower than without a profile; only the shares count.
"""

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path

import growth
import keeping
import torch

TOP = 8


def profile(action: Callable[[], object], times: int) -> dict:
    """Milliseconds of one action, and the functions that most of it is spent in."""
    action()
    measured = cProfile.Profile()
    measured.enable()
    for _ in range(times):
        action()
    measured.disable()
    found = pstats.Stats(measured).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in found.values())
    most = sorted(found.items(), key=lambda item: -item[1][2])[:TOP]
    rows = [[_name(*key), calls / times, own / total] for key, (_, calls, own, _, _) in most]
    return {"ms": 1e3 * total / times, "functions": len(found), "most": rows}


def _name(file: str, line: int, function: str) -> str:
    if file == "~":
        return function.strip("<>").replace("built-in method ", "").replace("method ", "").split(" of ")[0].strip("'")
    return f"{Path(file).stem}.{function}"


def measure() -> dict[str, dict]:
    found = {}
    for agents, times in ((10, 100), (10_000, 2)):
        run = growth.training("mlp", "ring", agents, (1, 8, 8), 8)
        found[f"CGA, MLP 64-32-10, ring of {agents:,}"] = profile(run.step, times)
    for name, graph, agents, size in growth.OVERHEADS:
        if name in ("edm", "cga", "sgp"):
            actions = growth.free(name, graph, agents, size)
            title = f"{name} with free gradients, {graph} of {agents}, {size:,} parameters"
            found[title] = profile(actions["step"], 20)
    return found


def text(found: dict[str, dict]) -> str:
    """The figures as Markdown."""
    lines = ""
    for title, one in found.items():
        lines += f"{title}: {one['ms']:.1f} ms a step, in {one['functions']} functions.\n\n"
        rows = [[f"`{name}`", f"{calls:.0f}", f"{100 * share:.0f}"] for name, calls, share in one["most"]]
        lines += keeping.table(["function", "calls a step", "own time, %"], rows) + "\n"
    return lines


if __name__ == "__main__":
    torch.set_num_threads(1)
    profiles = measure()
    keeping.keep("profiles", profiles, text(profiles))
