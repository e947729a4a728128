"""agents.json in a run's folder: the graph's edges, and how many samples of each class each agent holds.

It is written once, when a run begins, so that reports need neither the run's data nor its graph. A run that goes on
compares its graph with a digest in this file. Where sites are added to a federation it is written anew.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from scipy.sparse import coo_array

from crossgrad._runs.results import AGENTS_FILE
from crossgrad._storage import atomic
from crossgrad._training.evaluation import MAX_DETAILED_AGENTS
from crossgrad._training.trainer import Training
from crossgrad.records.quantity import quantities_as_json

MAX_SHOWN_CLASSES = 1000  # a vocabulary is not drawn
ROUNDED_TO = 1e6  # of weights in a digest


def describe_agents(training: Training) -> dict[str, Any]:
    """Describe agents and graph as JSON values. Collective: every process of the run must call it.

    `quantities` describes the numbers of the records, besides those that all records have. `edges` are (receiver,
    sender, weight); of a graph that changes, all that ever occur. With more than MAX_DETAILED_AGENTS agents, edges and
    classes are left out.
    """
    graph = training.graph.union()
    plain = {
        "agents": graph.agents,
        "graph": training.graph.name,
        "changes": training.graph.period != 1,
        "graph_digest": digest_of_graph(training),
        "rounds_per_step": training.rounds_per_step,
        "quantities": quantities_as_json(training.quantities),
    }
    if graph.agents > MAX_DETAILED_AGENTS:
        return plain | {"edges": [], "classes": []}
    weights = coo_array(graph.weights)
    edges = zip(weights.row.tolist(), weights.col.tolist(), weights.data.round(6).tolist(), strict=True)
    return plain | {"edges": [list(edge) for edge in edges], "classes": _class_counts(training)}


def write_agents_file(folder: Path, agents: dict[str, Any]) -> None:
    """Write agents.json, unless it exists."""
    if not (folder / AGENTS_FILE).exists():
        atomic.write(folder / AGENTS_FILE, [(json.dumps(agents) + "\n").encode()])


def drop_smaller_graph(folder: Path, training: Training) -> None:
    """Remove agents.json if it has fewer agents than the graph has now; it is written anew."""
    path = folder / AGENTS_FILE
    before = atomic.read_json(path) if path.exists() else None
    if isinstance(before, dict) and before.get("agents") in range(training.graph.agents):
        path.unlink()


def check_graph(folder: Path, training: Training) -> None:
    """Raise ValueError if the graph is not the one in agents.json, such as where the file of its edges was changed."""
    path = folder / AGENTS_FILE
    before = atomic.read_json(path) if path.exists() else None
    digest = before.get("graph_digest") if isinstance(before, dict) else None  # older versions did not write it
    if digest is not None and digest != digest_of_graph(training):
        raise ValueError(
            f"the graph must be what the run began with, as {path} has it; it has been changed. Undo the change, or "
            "start a new run with `crossgrad run`."
        )


def digest_of_graph(training: Training) -> str:
    """A text that changes with the graph's edges and weights, but not with the last digits of these."""
    weights = training.graph.union().weights.tocsr().sorted_indices()
    digest = hashlib.sha256(f"{training.graph.agents} {training.graph.period}".encode())
    for part in (weights.indptr, weights.indices):
        digest.update(part.astype("<i8").tobytes())
    digest.update((weights.data * ROUNDED_TO).round().astype("<i8").tobytes())
    return digest.hexdigest()


def _class_counts(training: Training) -> list[list[int]]:
    """For each agent its samples of each class; nothing where there are no classes."""
    task = training.task
    if task.classes is None or task.classes > MAX_SHOWN_CLASSES:
        return []
    kinds = [torch.from_numpy(task.kinds(samples.labels)) for samples in training.agents]
    own = [torch.bincount(kinds_n, minlength=task.classes) for kinds_n in kinds]
    counts: list[list[int]] = training.group.gather(torch.stack(own)).tolist()
    return counts
