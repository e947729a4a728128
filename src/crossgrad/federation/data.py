"""A site's own data: a folder of arrays, or a function of an installed package. It never leaves the site.

A folder has inputs.npy (samples first) and labels.npy (whole numbers from 0 on), and may have test_inputs.npy and
test_labels.npy. Where there is no test data, every tenth sample is held out.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crossgrad._storage import atomic
from crossgrad.data import Samples
from crossgrad.federation.file import Federation
from crossgrad.federation.start import SiteData
from crossgrad.tasks import Classification

HELD_OUT = 10  # one sample of so many is held out


def data_of_site(where: str, federation: Federation, agent: int) -> SiteData:
    """The data that `--data` names: a folder, or module:function."""
    test: Samples | None
    if federation.classes is None:
        raise ValueError(
            "where sites have data of their own, the federation's file must say how many classes there are; it does "
            "not. "
            "Add classes = 10, or as many as there are: a site need not hold all of them."
        )
    if federation.experiment.task is not None:
        raise ValueError(
            "experiment.task must be left out where sites have data of their own, which have classes; it is given. "
            "Remove it."
        )
    if Path(where).is_dir():
        own, test = _folder(Path(where))
    elif ":" in where:
        own, test = _called(where)
    else:
        raise ValueError(
            f"--data must be a folder, or module:function of an installed package; there is no folder {where!r}. Name "
            "the folder that has inputs.npy."
        )
    if test is not None and test.shape != own.shape:
        raise ValueError(
            f"test data must have the shape of training data, {tuple(own.shape)} per sample; found "
            f"{tuple(test.shape)}. "
            "Make both in the same way."
        )
    stated = [entry.samples for entry in federation.sites]
    known = [samples for samples in stated if samples is not None]
    sizes = known if len(known) == len(stated) else [len(own)] * len(stated)
    if sizes[agent] != len(own):
        raise ValueError(
            f"{federation.sites[agent].name} has {len(own)} training samples; the federation's file says "
            f"{sizes[agent]}. Correct it at all sites, or leave `samples` out."
        )
    return SiteData(own, test, Classification(federation.classes), sizes, private=True)


def _folder(folder: Path) -> tuple[Samples, Samples]:
    inputs, labels = _pair(folder, "inputs.npy", "labels.npy")
    if (folder / "test_inputs.npy").exists():
        test = _pair(folder, "test_inputs.npy", "test_labels.npy")
    else:
        held = np.arange(len(inputs)) % HELD_OUT == HELD_OUT - 1
        if not held.any():
            raise ValueError(
                f"{folder}: every tenth sample is held out for tests, so at least {HELD_OUT} are needed; found "
                f"{len(inputs)}. Add samples, or test_inputs.npy and test_labels.npy."
            )
        test = inputs[held], labels[held]
        inputs, labels = inputs[~held], labels[~held]
    return _samples(folder, inputs, labels), _samples(folder, *test)


def _pair(folder: Path, first: str, second: str) -> tuple[Any, Any]:
    """Inputs and labels, as many of either."""
    inputs, labels = _array(folder / first), _array(folder / second)
    if inputs.dtype.kind not in "biuf":
        raise ValueError(f"{folder / first}: inputs must be numbers; found {inputs.dtype}. Save them as float32.")
    if not inputs.ndim or inputs.shape[:1] != labels.shape[:1]:
        raise ValueError(
            f"{folder}: {first} and {second} must have one entry per sample; found shapes {inputs.shape} and "
            f"{labels.shape}. Save both again."
        )
    return inputs, labels


def _samples(folder: Path, inputs: Any, labels: Any) -> Samples:
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{folder}: labels must be whole numbers from 0 on; found {labels.dtype}. Number the classes.")
    values = torch.from_numpy(np.ascontiguousarray(inputs, dtype=np.float32))
    try:
        return Samples(values, torch.from_numpy(labels.astype(np.int64)))
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def _array(path: Path) -> Any:
    if not path.exists():
        raise ValueError(
            f"a site's folder must have inputs.npy and labels.npy; {path} is missing. docs/organisations.md says what "
            "is "
            "in them."
        )
    try:
        with atomic.open_regular(path) as file:
            return np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError):
        raise ValueError(f"{path} must be an array as numpy.save writes it; it is not. Save it again.") from None


def _called(where: str) -> tuple[Samples, Samples | None]:
    name, _, function = where.partition(":")
    try:
        made = getattr(import_module(name), function)()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"--data must name a function of an installed package; {where}: {error}. Install it."
        ) from None
    except Exception as error:  # whatever the site's own function does wrong
        raise ValueError(
            f"--data {where}: the function must return the site's data; it failed with {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(made, tuple) and len(made) == 2):
        raise ValueError(
            f"--data {where}: the function must return a pair, training data and test data (or None); found "
            f"a {type(made).__name__}."
        )
    return Samples.of(made[0]), None if made[1] is None else Samples.of(made[1])
