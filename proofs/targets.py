"""The readers of files from elsewhere, each with valid files to spoil and ways to do it.

A new one is an entry of TARGETS: valid inputs (file name -> bytes), a function that reads them from a folder, and where
spoiling bytes is not enough, a function in `makers` that grows inputs from their grammar.
"""

import gzip
import hashlib
import io
import json
import lzma
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from unittest import mock

import grow_binary as binary
import grow_pickle as pickles
import grow_runs as runs
import grow_text as text
import numpy as np
import tomli_w
import torch._dynamo  # noqa: F401 - by PyTorch's first optimiser, and makes a cache folder, which is no reader's deed
from mutate import BINARY, PACKED, TEXT, Mutator
from odd_files import ODD_FILES, Odd

from crossgrad.data import datasets
from crossgrad.data.files import cifar
from crossgrad.data.files.archive import read_members
from crossgrad.data.files.idx import read_idx
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.files import parse, read, to_toml
from crossgrad.graphs import read_edge_list, read_weights
from crossgrad.records.file import read_records

# The small batches here take the place of the published ones.
cifar.PICKLED_MD5.update({name: hashlib.md5(data).hexdigest() for name, data in binary.pickles().items()})

Files = dict[str, bytes]  # by name, below the input's folder
OddFiles = dict[str, bytes | tuple[Odd, bytes]]  # some may be no files at all
MAX_BUILT_AGENTS = 200  # of graphs that are built here


@dataclass(frozen=True)
class Target:
    """A reader, and where its inputs come from."""

    name: str
    seeds: tuple[Files, ...]  # valid: the first inputs, which must be accepted
    read: Callable[[Path], object]
    mutators: tuple[Mutator, ...] = BINARY
    makers: tuple[Callable[[Random], Files], ...] = ()
    names_file: bool = True  # whether every refusal names the file
    opens_files: bool = True  # and not only what was read from them

    def input(self, seed: int, number: int) -> OddFiles:
        """The files of input `number`: first the valid ones, then what is no plain file, then all else."""
        if number < len(self.seeds):
            return dict(self.seeds[number])
        odd = number - len(self.seeds)
        if self.opens_files and odd < 2 * len(ODD_FILES):
            files = self.seeds[(odd + odd // len(ODD_FILES)) % len(self.seeds)]
            name = list(files)[odd // len(ODD_FILES) % len(files)]
            return {**files, name: (list(ODD_FILES.values())[odd % len(ODD_FILES)], files[name])}
        rng = Random(f"{self.name} {seed} {number}")
        grown = bool(self.makers) and rng.random() < 0.6
        files = dict(rng.choice(self.makers)(rng) if grown else rng.choice(self.seeds))
        if not grown or rng.random() < 0.25:
            for _ in range(rng.choice([1, 1, 2, 4])):
                name = rng.choice(sorted(files))
                files[name] = rng.choice(self.mutators)(rng, files[name])
        if len(files) > 1 and rng.random() < 0.03:
            del files[rng.choice(sorted(files))]
        if self.opens_files and rng.random() < 0.005:
            name = rng.choice(sorted(files))
            return {**files, name: (rng.choice(list(ODD_FILES.values())), files[name])}
        return {**files}


def read_experiment(folder: Path) -> object:
    """Read an experiment and its graph, write it down and read that."""
    changes = folder / "changes"
    lines = changes.read_bytes().decode("utf-8", "surrogateescape").split("\n") if changes.exists() else []
    one = read(folder / "experiment.toml", lines)
    if parse(to_toml(one)) != one:
        raise AssertionError("it does not come back as it was written")
    try:
        return one.build_graph() if one.agents <= MAX_BUILT_AGENTS else one
    except (ValueError, FileNotFoundError) as error:  # as the command line does
        raise ConfigError(f"{folder}: {error}") from None


def read_graphs(folder: Path) -> object:
    return [read_edge_list(file, directed=file.stem == "directed") for file in folder.iterdir()]


def read_archive(folder: Path) -> object:
    return read_members(folder / "archive", {"a": 1000, "b/c": 1000})


def read_images(folder: Path) -> object:
    return cifar.read_cifar10(folder, pickles.RECORDS)


def load_images(name: str, folder: Path) -> object:
    """As an experiment loads a data set from a folder; nothing lies elsewhere."""
    elsewhere = {"XDG_CACHE_HOME": str(folder / "cache"), "CROSSGRAD_DATA": ""}
    small = mock.patch.object(datasets, "read_cifar10", partial(cifar.read_cifar10, records=pickles.RECORDS))
    with mock.patch.dict(os.environ, elsewhere), small:
        return datasets.load(name, folder)


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def below(folder: str, files: Files) -> Files:
    return {f"{folder}/{name}": data for name, data in files.items()}


EXPERIMENTS = tuple(
    {"experiment.toml": tomli_w.dumps(table | {"agents": 5}).encode(), "graph.txt": content}
    for table, content in zip(
        [text.WHOLE_EXPERIMENT, *text.SMALL_EXPERIMENTS],
        [b"", b"", b"0 1\n1 2\n2 3\n3 4\n", b"0.2 0.2 0.2 0.2 0.2\n" * 5],
        strict=True,
    )
)
CHANGES = tuple(
    {"experiment.toml": EXPERIMENTS[0]["experiment.toml"], "changes": lines}
    for lines in (b"algorithm.momentum=0.5\nseed=3", b"graph=ring\nschedule.then.at=[1, 2.5]\nname=my own")
)
EDGES = (
    {"graph.txt": b"0 1\n1 2\n2 0\n"},
    {"graph.txt": b"0 1 0.25  # a chain\n1 2 0.5\n"},
    {"directed.txt": b"0 1\n1 2\n2 0\n"},
)
HALF = np.full((2, 2), 0.5)
WEIGHTS = (
    {"w.csv": b"0.5, 0.5\n0.5, 0.5\n"},
    {"w.txt": b"# a pair\n0.5 0.5\n0.5 0.5\n"},
    *({"w.npy": npy(matrix)} for matrix in (HALF, HALF.astype(">f4"), np.eye(1, dtype=int), np.asfortranarray(HALF))),
)
IDX = (
    *({"images": binary.idx((3, 2, 4))}, {"images": gzip.compress(binary.idx((24,)))}),
    *({"images": lzma.compress(binary.idx((2, 3)))}, {"images": binary.idx((2, 2), 14, bytes(32))}),
)
MNIST = tuple(
    {
        f"{name}-ubyte{end}": pack(binary.idx(shape))
        for name, shape in (
            ("train-images-idx3", (3, 28, 28)),
            ("train-labels-idx1", (3,)),
            ("t10k-images-idx3", (2, 28, 28)),
            ("t10k-labels-idx1", (2,)),
        )
    }
    for end, pack in (("", bytes), (".gz", gzip.compress))
)
ARCHIVES = tuple(
    {"archive": pack(binary.tar([binary.entry("a", b"first"), binary.entry("b/c", b"second")]))}
    for pack in (bytes, gzip.compress, lzma.compress)
)
FOLDERS = (
    binary.binary_batches(),
    below("cifar-10-batches-bin", binary.binary_batches()),
    binary.pickles(),
    below("cifar-10-batches-py", binary.pickles()),
)
CIFAR_ARCHIVES = (
    *(
        {"cifar-10-binary.tar": binary.cifar_tar(False)},
        {"cifar-10-binary.tar.gz": gzip.compress(binary.cifar_tar(False))},
    ),
    *(
        {"cifar-10-python.tar": binary.cifar_tar(True)},
        {"cifar-10-python.tar.xz": lzma.compress(binary.cifar_tar(True))},
    ),
)
RECORDS = tuple({"records.jsonl": f"{json.dumps(text.RECORD.as_json())}\n".encode() * lines} for lines in (1, 3))

TARGETS = {
    target.name: target
    for target in (
        Target("experiment", EXPERIMENTS, read_experiment, TEXT, (text.experiment,)),
        Target("changes", CHANGES, read_experiment, TEXT, (text.changes,), opens_files=False),
        Target("edge-list", EDGES, read_graphs, TEXT, (text.edges,), names_file=False),
        Target("weights", WEIGHTS, lambda folder: read_weights(next(folder.iterdir())), (*TEXT, *BINARY),
               (text.matrix, text.npy), names_file=False),
        Target("idx", IDX, lambda folder: read_idx(folder / "images"), PACKED, (binary.lying_idx,)),
        Target("mnist-folder", MNIST, partial(load_images, "mnist"), PACKED, (binary.mnist,)),
        Target("archive", ARCHIVES, read_archive, PACKED, (binary.small_archive,)),
        Target("cifar-folder", FOLDERS, read_images, BINARY, (binary.pickled_folder,)),
        Target("cifar-archive", CIFAR_ARCHIVES, read_images, PACKED, (binary.cifar_archive,)),
        Target("cifar-load", (*FOLDERS, *CIFAR_ARCHIVES), partial(load_images, "cifar10"), PACKED,
               (binary.pickled_folder, binary.cifar_archive)),
        Target("records", RECORDS, lambda folder: read_records(folder / "records.jsonl"), TEXT, (text.records,)),
        Target("checkpoint", (runs.a_checkpoint(),), runs.read_checkpoint, BINARY, (runs.lying_checkpoint,)),
        Target("run-folder", (runs.run_folder(),), runs.read_run, TEXT),
        Target("message", (runs.a_message(),), runs.read_message, BINARY, (runs.another_message,), names_file=False,
               opens_files=False),
    )
}  # fmt: skip
