"""What lies in the folder of a run, and what arrives from another process: as it should be, and with lies in it."""

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import grow_text as text
import torch
from mutate import WHOLE
from torch import nn

import crossgrad as cg
from crossgrad._network import wire
from crossgrad._network.wire import Label, PeerError
from crossgrad._processes.group import SingleProcess
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import RunFolder
from crossgrad._runs.versions import versions
from crossgrad._storage import tensorfile
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import DPMSGD
from crossgrad.codecs.codec import ScaledSign
from crossgrad.data import Samples
from crossgrad.records.file import MAX_RECORD_BYTES

Files = dict[str, bytes]

LABEL = Label("code", step=7, agent=3, receiver=4)
CODE = ScaledSign().encode(torch.linspace(-1, 1, 77)[None], [77])
EXPERIMENT = b"""partition = "class"
model = "mlp"
graph = "ring"
algorithm = "cga"
training = { steps = 3 }
"""
SUMMARY = {"ended": "interrupted", "status": "ok", "reason": "", "steps": 3, "model_of_step": 3, "last_record": None}


torch.set_num_threads(1)  # more would hang in the processes that are forked from here
versions()  # asks the system, which a reader must not; it knows the answer from now on


@cache
def a_training() -> Training:
    torch.manual_seed(0)
    agents = [Samples(torch.randn(6, 3), torch.arange(6) % 2) for _ in range(3)]
    settings = TrainingSettings(cg.Constant(0.1), batch_size=4, steps=9, evaluate_every=3)
    training = Training(nn.Linear(3, 2), agents, DPMSGD(0.9), cg.ring(3), settings)
    training.step()
    return training


def a_checkpoint() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        Checkpoints(Path(folder), a_training(), "e").save(1)
        return {f"checkpoints/{path.name}": path.read_bytes() for path in Path(folder).iterdir()}


def read_checkpoint(folder: Path) -> object:
    checkpoints = Checkpoints(folder / "checkpoints", a_training(), "e")
    progress = checkpoints.go_on(SingleProcess())
    if progress is None and checkpoints.problems:
        raise ValueError(" ".join(checkpoints.problems))
    return progress


def lying_checkpoint(rng: Random) -> Files:
    """A header changed in any place, with a digest that is right."""
    ((name, content),) = a_checkpoint().items()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    for _ in range(rng.choice([1, 1, 2, 3])):
        _spoil(header, rng)
    if rng.random() < 0.3:
        data = data[: rng.randrange(len(data) + 1)] + bytes(rng.choice([0, 1, 8, 100]))
    if isinstance(header.get("__metadata__"), dict):
        header["__metadata__"]["sha256"] = tensorfile.BLANK_DIGEST
    words = json.dumps(header, separators=(",", ":")).encode()
    words += b" " * (-len(words) % 8)
    blank = len(words).to_bytes(8, "little") + words
    digest = hashlib.sha256(blank + data).hexdigest().encode()
    return {name: blank.replace(tensorfile.BLANK_DIGEST.encode(), digest, 1) + data}


def _spoil(table: Any, rng: Random) -> None:
    """Change one value somewhere within tables and lists."""
    while True:
        keys = list(table) if isinstance(table, dict) else list(range(len(table)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(table[key], dict | list) and table[key] and rng.random() < 0.8:
            table = table[key]
            continue
        if key == "progress" and rng.random() < 0.8:
            progress = json.loads(table[key])
            progress[rng.choice(list(progress))] = rng.choice([*WHOLE, "x", None, [], {}, 1.5, True])
            table[key] = json.dumps(progress)
        elif rng.random() < 0.15 and isinstance(table, dict):
            del table[key]
        else:
            table[key] = rng.choice([*WHOLE, "F32", "I64", "BF16", "", "x", None, [], [0, 0], [2**62, 2**62], {}])
        return


def run_folder() -> Files:
    return {
        "experiment.toml": EXPERIMENT,
        "versions.json": b'{"torch": "2.6", "threads": 1}\n',
        "summary.json": json.dumps(SUMMARY).encode(),
        "records.jsonl": f"{json.dumps(text.RECORD.as_json())}\n".encode() * 2,
    }


def read_run(folder: Path) -> object:
    """All that `crossgrad resume` reads before the checkpoints."""
    run = RunFolder.existing(folder)
    run.experiment()
    run.check_experiment()
    first = _first_line(folder / "records.jsonl")
    with mock.patch("crossgrad._storage.atomic.truncate"):  # it may write here, but not in this place
        run.keep_records(1, hashlib.sha256(first).hexdigest())
    return run.ended, run.digest(), run.changed_versions()


def _first_line(path: Path) -> bytes:
    """Of a plain file; what else lies there is for the reader to refuse."""
    if path.is_symlink() or not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.readline(MAX_RECORD_BYTES)


def a_message(label: Label = LABEL) -> Files:
    message = torch.zeros(wire.message_bytes(CODE), dtype=torch.uint8)
    wire.pack_message(message, label, CODE)
    return {"message": bytes(message.tolist())}


def another_message(rng: Random) -> Files:
    """Any header, any numbers."""
    message = torch.tensor(list(a_message()["message"]), dtype=torch.uint8)
    words = message.view(torch.int64)
    words[rng.randrange(8)] = max(-(2**63), min(2**63 - 1, int(rng.choice(WHOLE))))
    if rng.random() < 0.5:
        wire.parts_of(message, CODE)[1].fill_(rng.choice([float("nan"), float("inf"), -1e38, 0.0]))
    return {"message": bytes(message.tolist())}


def read_message(folder: Path) -> object:
    """As a transport checks what has arrived; a PeerError has the sentence."""
    content = (folder / "message").read_bytes()
    message = torch.zeros(wire.message_bytes(CODE), dtype=torch.uint8)  # the space is there before anything arrives
    arrived = torch.tensor(list(content[: len(message)]), dtype=torch.uint8)
    message[: len(arrived)] = arrived
    try:
        wire.check_message(message, LABEL, CODE, rank=1)
    except PeerError as error:
        raise ValueError(str(error)) from None
    return ScaledSign().decode(tuple(wire.parts_of(message, CODE)), [77])
