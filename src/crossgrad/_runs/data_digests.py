"""Digests of the data of a run, by which a changed sample or label is noticed when the run goes on.

All labels and inputs are hashed. Inputs that a run reads from files when it needs them may be many, so their digests
are kept beside the checkpoints: they are hashed again only if the size or the time stamp of a file has changed.
"""

from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossgrad._storage import atomic
from crossgrad._storage.tensorfile import HASH_BLOCK_BYTES
from crossgrad._training.trainer import Training
from crossgrad.data import Samples
from crossgrad.data.lazy import LazySamples
from crossgrad.data.nested import leaves

FILE_NAMES = "data.agents-*.json"


class FileDigests:
    """Digests of inputs in files, by the paths, sizes and time stamps of these files.

    Every process keeps those of its own agents, and reads those of all.

    Args:
        folder: of the run's checkpoints.
        agents: of this process, such as "0-4".
    """

    def __init__(self, folder: Path, agents: str) -> None:
        self.folder, self.own = folder, folder / FILE_NAMES.replace("*", agents)
        self._used: dict[str, str] = {}
        self._kept: dict[str, str] | None = None
        self._written = False

    def of(self, source: Any, indices: list[int]) -> str:
        """A digest of these items as their files hold them.

        Args:
            source: has `files(indices)`, the paths that hold items, and `stored(index)`, the bytes of one.
            indices: of the items, in order.
        """
        stamp = blake2b(str(indices).encode(), digest_size=16)
        for path in source.files(indices):
            known = path.stat()
            stamp.update(f"{path.resolve()} {known.st_size} {known.st_mtime_ns}\n".encode())
        key = stamp.hexdigest()
        if self._kept is None:
            self._kept = self._read()
        if key not in self._kept:
            digest = blake2b(digest_size=16)
            for index in indices:
                digest.update(source.stored(index))
            self._kept[key] = digest.hexdigest()
            self._written = False
        self._used[key] = self._kept[key]
        return self._used[key]

    def save(self) -> None:
        """Write the digests that were asked for, unless that was done."""
        if self._used and not self._written:
            atomic.write_json(self.own, self._used)
            self._written = True

    def forget(self) -> None:
        """Delete the digests of all processes."""
        for path in self.folder.glob(FILE_NAMES):
            path.unlink(missing_ok=True)

    def _read(self) -> dict[str, str]:
        kept: dict[str, str] = {}
        for path in self.folder.glob(FILE_NAMES):
            with suppress(ValueError, OSError):  # what cannot be read is hashed again
                content = atomic.read_json_object(path)
                kept |= {key: digest for key, digest in content.items() if isinstance(digest, str)}
        return kept


def data_digests(training: Training, files: FileDigests) -> Tensor:
    """A number per agent of this process that changes with any of its samples or labels, those held out included."""
    held_out = [part for part in (training.validation, training.own_test) if part is not None]
    distinct = {id(samples): samples for part in held_out for samples in part}  # agents may share them
    known = {key: _samples_digest(samples, files) for key, samples in distinct.items()}
    digests = []
    for own, *others in zip(training.agents, *held_out, strict=True):
        digest = _samples_digest(own, files)
        for samples in others:
            digest = blake2b(digest + known[id(samples)], digest_size=8).digest()
        digests.append(digest)
    return torch.tensor([int.from_bytes(digest, "big", signed=True) for digest in digests])


def digest_of_test(training: Training, files: FileDigests) -> str:
    """A text that changes with any sample or label of the test set; empty if there is none."""
    return "" if training.test is None else _samples_digest(training.test, files).hex()


def _samples_digest(samples: Samples, files: FileDigests) -> bytes:
    """A digest of all labels and inputs; inputs that are read when needed count as their files hold them.

    Of a data set of one's own that is read when needed, and may be random, only the labels count.
    """
    digest = blake2b(digest_size=8)
    inputs = () if isinstance(samples, LazySamples) else leaves(samples.inputs)
    if isinstance(samples, LazySamples) and hasattr(samples.source, "stored"):
        digest.update(files.of(samples.source, samples.indices.tolist()).encode())
    for tensor in (*leaves(samples.labels), *inputs):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        rows = max(1, HASH_BLOCK_BYTES // max(1, tensor[:1].nbytes))
        for first in range(0, len(tensor), rows):
            digest.update(tensor[first : first + rows].cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.digest()
