"""Texts grown from their grammar: experiments, changes, edge lists, matrices, records."""

import copy
import dataclasses
import json
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import tomli_w
from mutate import FLOATS, ODD_TEXT, ODD_WORDS, WHOLE, number_word

from crossgrad.experiments.choices import DataChoice, TrainingChoice
from crossgrad.experiments.experiment import Experiment
from crossgrad.experiments.files import CHOICES
from crossgrad.records.record import MetricTable, MetricValues, Record
from crossgrad.records.values import STATUSES

Files = dict[str, bytes]

WHOLE_EXPERIMENT: dict[str, Any] = {
    "agents": 5,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "alpha": 0.5},
    "model": {"name": "mlp", "hidden": [8]},
    "graph": {"name": "erdos-renyi", "probability": 0.5},
    "algorithm": {
        "name": "cga",
        "momentum": 0.9,
        "codec": {"name": "scaled-sign"},
        "aggregate": {"name": "projection"},
    },
    "schedule": {"name": "warm-up", "epochs": 2, "then": {"name": "step", "at": [3.0, 4.0]}},
    "training": {"steps": 10, "batch_size": 4},
}
SMALL_EXPERIMENTS = [
    {"partition": "iid", "model": "linear", "graph": graph, "algorithm": "dpsgd", "training": {"epochs": 1.5}}
    for graph in ("ring", {"name": "edge-list", "path": "graph.txt"}, {"name": "weight-matrix", "path": "graph.txt"})
]
NAMES = sorted({name for registry in CHOICES.values() for name in registry} | {"digits", "mnist", "cifar10"})


def _keys() -> list[str]:
    made = [entry if isinstance(entry, type) else type(entry()) for part in CHOICES.values() for entry in part.values()]
    kinds = [Experiment, TrainingChoice, DataChoice, *filter(dataclasses.is_dataclass, made)]
    return sorted({field.name for kind in kinds for field in dataclasses.fields(kind)} | {"name"})


KEYS = _keys()
GRAPH_FILES = [
    "graph.txt",
    "nothing.txt",
    ".",
    "..",
    "/dev/zero",
    "/dev/null",
    "",
    "a\0b",
    "a\nb",
    "x" * 5000,
    "graph.npy",
]


def value(rng: Random, depth: int = 0) -> Any:
    """Any value that TOML has."""
    kind = rng.randrange(12 if depth < 4 else 9)
    if kind < 2:
        return rng.choice(WHOLE)
    if kind < 4:
        return rng.choice(FLOATS)
    if kind < 6:
        return rng.choice(NAMES)
    if kind == 6:
        return rng.choice([*ODD_TEXT, *ODD_WORDS, *GRAPH_FILES, "float64", "cuda", "cpu"])
    if kind == 7:
        return rng.choice([True, False, 10**30, -(10**400), 0.25])
    if kind == 8:
        return rng.choice([date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), 3, 0.1])
    if kind == 9:
        return [value(rng, depth + 1) for _ in range(rng.choice([0, 1, 3]))]
    return {rng.choice(KEYS): value(rng, depth + 1) for _ in range(rng.choice([0, 1, 3]))}


def table(rng: Random) -> dict[str, Any]:
    """A valid experiment in which a few keys have other values."""
    whole = copy.deepcopy(rng.choice([WHOLE_EXPERIMENT, *SMALL_EXPERIMENTS]))
    for _ in range(rng.choice([1, 1, 2, 4])):
        inner = whole
        while tables := [part for part in inner.values() if isinstance(part, dict)]:
            if rng.random() < 0.4:
                break
            inner = rng.choice(tables)
        key = rng.choice([*inner, *inner, rng.choice(KEYS), rng.choice(ODD_TEXT)]) if inner else rng.choice(KEYS)
        if rng.random() < 0.1:
            inner.pop(key, None)
        else:
            inner[key] = value(rng)
    if rng.random() < 0.02:
        for _ in range(rng.choice([10, 300, 2000])):
            whole["schedule"] = {"name": "warm-up", "then": whole.get("schedule", "constant")}
    return whole


def experiment(rng: Random) -> Files:
    try:
        text = tomli_w.dumps(table(rng))
    except RecursionError:
        text = "schedule = " + "{ then = " * 3000
    return {"experiment.toml": text.encode(), "graph.txt": b"0 1\n1 2\n2 3\n3 4\n"}


def changes(rng: Random) -> Files:
    """A valid experiment, and changes to it, one per line."""
    lines = []
    for _ in range(rng.choice([1, 2, 5])):
        path = ".".join(
            rng.choice([*KEYS, *WHOLE_EXPERIMENT, rng.choice(ODD_TEXT)]) for _ in range(rng.choice([1, 2, 3]))
        )
        text = rng.choice([str(value(rng)), number_word(rng), rng.choice(NAMES), tomli_w.dumps({"v": value(rng)})[4:]])
        lines.append(f"{path}{rng.choice(['=', '=', '=', ' = ', ''])}{text}".replace("\n", " "))
    return {"experiment.toml": tomli_w.dumps(WHOLE_EXPERIMENT).encode(), "changes": "\n".join(lines).encode()}


def edges(rng: Random) -> Files:
    agents = rng.choice([1, 2, 3, 5, 40])
    weighted = rng.random() < 0.5
    lines = [
        f"{j} {(j + 1) % agents}" + (f" {rng.choice([0.1, 0.25, 0.3])}" if weighted else "") for j in range(agents)
    ]
    for _ in range(rng.choice([0, 1, 3])):
        words = [
            number_word(rng) if rng.random() < 0.5 else str(rng.randrange(agents)) for _ in range(rng.randrange(5))
        ]
        lines.insert(rng.randrange(len(lines) + 1), rng.choice([" ", "\t", ",", "  "]).join(words))
    return {rng.choice(["graph.txt", "directed.txt"]): "\n".join(lines).encode()}


def matrix(rng: Random) -> Files:
    """Rows of numbers, in which some are unlike the others."""
    agents, comma = rng.choice([1, 2, 3, 10]), rng.choice([" ", ",", ", "])
    rows = [[repr(1 / agents)] * agents for _ in range(agents)]
    for _ in range(rng.choice([0, 1, 2])):
        row = rng.choice(rows)
        row[rng.randrange(-1, len(row)) if row else slice(0)] = number_word(rng)
        if rng.random() < 0.2:
            rows.append(row * rng.choice([1, 2]))
    return {rng.choice(["w.csv", "w.txt"]): "\n".join(comma.join(row) for row in rows).encode()}


def npy(rng: Random) -> Files:
    """A header of numpy's in which sizes and types may be anything."""
    shape = rng.choice([(2, 2), (1, 1), (3,), (), (0, 0), *[(rng.choice(WHOLE), rng.choice(WHOLE)) for _ in range(9)]])
    words = [
        "'<f8'",
        "'>f4'",
        "'|b1'",
        "'|O'",
        "'<U9'",
        "'<c16'",
        "[('a','<f8')]",
        "'<f2'",
        "'|V2147483647'",
        "'<M8[s]'",
    ]
    text = (
        f"{{'descr': {rng.choice([*words[:2], *words])}, 'fortran_order': {rng.choice(['False', 'True', '0', '()'])}, "
    )
    text += f"'shape': {rng.choice([repr(shape), repr(shape), number_word(rng), '(' * 500, '2*(2,)'])}, }}"
    body = rng.choice([bytes(32), b"\0\0\0\0\0\0\xe0\x3f" * 4, bytes(8), rng.randbytes(32), bytes(4096)])
    length = rng.choice([len(text), len(text), len(text), 0, 65535])
    return {"w.npy": b"\x93NUMPY\x01\0" + length.to_bytes(2, "little") + text.encode() + body}


F1 = MetricValues(0.9, 0.8, 0.7, (0.7, 0.9))
RECORD = dataclasses.replace(
    Record(20, 1.5, 0.01, 0.7, 0.25, 0.5, 0.9, (0.8, 1.0), 1e-9, 800, {"model": 800}, (400, 400), 40, 0.1),
    metrics={"macro_f1": F1},
    metric_tables={"confusion": MetricTable(((3.0, 1.0), (0.0, 2.0)))},
)


def records(rng: Random) -> Files:
    lines = []
    for _ in range(rng.choice([1, 1, 3])):
        plain = RECORD.as_json()
        for _ in range(rng.choice([0, 1, 2])):
            inner = rng.choice(
                [plain, plain, plain["diagnostics"], plain["bytes_by_kind"], plain["metrics"], plain["metric_tables"]]
            )
            if isinstance(inner, dict):
                odd = rng.choice([value(rng), None, rng.choice(STATUSES), [0.5] * rng.choice([1, 3000])])
                inner[rng.choice([*plain, *plain, "model", rng.choice(ODD_TEXT)])] = odd
        if rng.random() < 0.1:
            del plain[rng.choice(list(plain))]
        lines.append(json.dumps(plain, default=str))
    return {"records.jsonl": ("\n".join(lines) + rng.choice(["\n", "\n", "\n", ""])).encode()}
