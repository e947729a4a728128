"""Folders of runs and sweeps that look like real ones, made in a moment."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from crossgrad.records.record import Record

AGENTS, CLASSES = 4, 3


class Folders:
    """Makes folders whose numbers are known."""

    @staticmethod
    def record(number: int, level: float, diagnostics: bool = True) -> Record:
        """The evaluation after 10 * number steps of a run that learns as well as its level says."""
        accuracy = level * number / (number + 1)
        return Record(
            step=10 * number,
            epoch=0.5 * number,
            lr=0.1,
            train_loss=1.5 / (number + 1) if number else None,
            loss=2.0 / (number + 1),
            test_loss=2.1 / (number + 1),
            accuracy=accuracy,
            agent_accuracy=tuple(accuracy * (0.7 + 0.1 * agent) for agent in range(AGENTS)),
            consensus=0.3 / (number + 1),
            bytes_sent=4000 * number,
            bytes_by_kind={"model": 2000 * number, "gradient": 2000 * number}
            if diagnostics
            else {"model": 4000 * number},
            bytes_by_agent=(1000 * number,) * AGENTS,
            gradients=120 * number,
            seconds=0.25 * number,
            diagnostics={"active": 0.5, "shrinkage": 0.8, "cosine": -0.2, "stalled": 0.0} if diagnostics else {},
            class_accuracy=(accuracy,) * CLASSES,
            agent_class_accuracy=tuple((accuracy, 1.0, 0.0) for _ in range(AGENTS)),
        )

    def run(self, folder: Path, labels: dict[str, str] | None = None, **differences: Any) -> Path:
        """A run; `level`, `evaluations`, `ended`, `method`, `name` and `diagnostics` can differ."""
        wanted = {"level": 0.9, "evaluations": 5, "ended": "finished", "method": "cga", "name": "tiny"} | differences
        folder.mkdir(parents=True)
        experiment = {
            "name": wanted["name"],
            "seed": 0,
            "agents": AGENTS,
            "algorithm": {"name": wanted["method"], "momentum": 0.9},
            "graph": {"name": "ring"},
            "partition": {"name": "class"},
            "model": {"name": "mlp", "hidden": [8]},
            "data": {"name": "digits"},
            "training": {"steps": 40, "batch_size": 8},
        }
        ring = [[j, (j + hop) % AGENTS, 0.333333] for j in range(AGENTS) for hop in (-1, 0, 1)]
        classes = [[20 if c == j % CLASSES else 0 for c in range(CLASSES)] for j in range(AGENTS)]
        if labels is not None:
            self.json(folder / "cell.json", {"labels": labels})
        self.json(folder / "versions.json", {"crossgrad": "0.1.0", "python": "3.11.7"})
        agents = {"agents": AGENTS, "graph": "ring", "changes": False, "edges": ring, "classes": classes}
        self.json(folder / "agents.json", agents)
        (folder / "experiment.toml").write_text(tomli_w.dumps(experiment), encoding="utf-8")
        for number in range(wanted["evaluations"]):
            self.add(folder, number, wanted["level"], wanted["method"].startswith("cga"))
        if wanted["ended"] != "begun":
            reason = "collapsed at step 40" if wanted["ended"] == "diverged" else ""
            self.json(folder / "summary.json", {"ended": wanted["ended"], "reason": reason})
        return folder

    def add(self, folder: Path, number: int, level: float = 0.9, diagnostics: bool = True) -> None:
        """One more record of a run."""
        with (folder / "records.jsonl").open("a") as file:
            file.write(json.dumps(self.record(number, level, diagnostics).as_json()) + "\n")

    def sweep(self, folder: Path) -> Path:
        """Two methods on two graphs, two seeds each: the second seed is better by 0.1, EDM by 0.05."""
        for method in ("CGA (paper)", "EDM"):
            for graph in ("ring", "star"):
                for seed in (0, 1):
                    labels = {"method": method, "graph": graph, "agents": "4", "seed": str(seed)}
                    level = 0.7 + 0.1 * seed + (0.05 if method == "EDM" else 0.0)
                    name = f"{method[:3].lower()}-{graph}-{seed}"
                    self.run(folder / "cells" / name, labels, level=level, method=method[:3].lower())
        return folder

    @staticmethod
    def json(path: Path, content: Any) -> None:
        path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture(scope="session")
def folders() -> Folders:
    return Folders()


@pytest.fixture(scope="session")
def data_of() -> Callable[[str], Any]:
    """The data inside a page."""

    def read(page: str) -> Any:
        start = page.index('id="data">') + len('id="data">')
        return json.loads(page[start : page.index("</script>", start)])

    return read
