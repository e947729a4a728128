"""The tasks as experiment files name them: options, and `build` for the labels there are."""

from dataclasses import is_dataclass
from typing import Any, Protocol

from torch import Tensor

from crossgrad._registry.entries import as_class_or_function
from crossgrad._registry.functions import options_class
from crossgrad._registry.registry import Registry
from crossgrad.tasks.classification import Classification, describe_labels
from crossgrad.tasks.infer import infer_task
from crossgrad.tasks.positions import IGNORED, Segmentation, TokenClassification
from crossgrad.tasks.several import MultiLabel
from crossgrad.tasks.task import Task


class TaskSpec(Protocol):
    """What all entries of `TASKS` have: fields for the task's options, and `build`."""

    def build(self, labels: Any) -> Task:
        """The task for these labels, those of all training samples."""


def classification(labels: Any, classes: int | None = None) -> Task:
    """One class per sample; as many classes as the largest label says, unless `classes` does."""
    return infer_task([labels]) if classes is None else Classification(classes)


def regression(labels: Any) -> Task:
    """Numbers to predict: labels are floating point, and the model returns as many."""
    if not isinstance(labels, Tensor) or not labels.is_floating_point():
        raise ValueError(f"the task regression needs floating-point labels; found {describe_labels(labels)}.")
    return infer_task([labels])


def multi_label(labels: Any) -> Task:
    """Several labels per sample, each there (1) or not (0)."""
    if not isinstance(labels, Tensor) or labels.ndim != 2:
        raise ValueError(f"the task multi-label needs labels (n, L) of 0 and 1; found {describe_labels(labels)}.")
    return MultiLabel(labels.shape[1])


def token_classification(labels: Any, classes: int | None = None, ignored: int = IGNORED, shift: bool = False) -> Task:
    """One class per token, or with `shift` a language model; tokens with the label `ignored` do not count."""
    return TokenClassification(_classes(labels, classes), ignored, shift)


def segmentation(labels: Any, classes: int | None = None, ignored: int = IGNORED) -> Task:
    """One class per pixel; pixels with the label `ignored` do not count."""
    return Segmentation(_classes(labels, classes), ignored)


def _classes(labels: Any, classes: int | None) -> int:
    """As given, or as many as the largest label says."""
    return int(labels.max()) + 1 if classes is None and isinstance(labels, Tensor) else classes or 0


def _checked_task(returned: Any) -> Task:
    if not isinstance(returned, Task):
        raise ValueError(f"a task must be a crossgrad.Task, such as OwnTask(...); found {returned!r:.60}.")
    return returned


def _as_spec(name: str, thing: Any) -> type[TaskSpec]:
    """A registered task: an object, a class of tasks, or a function of the labels that makes one."""
    if isinstance(thing, Task):
        return options_class("task", name, lambda: thing, "build", (), _checked_task)
    if isinstance(thing, type) and issubclass(thing, Task) and is_dataclass(thing):
        return options_class("task", name, thing, "build", (), _checked_task, hidden=("loss", "metrics"))
    spec: type[TaskSpec] = as_class_or_function("task", name, thing, "build", ("labels",), _checked_task)
    return spec


_BUILT_IN = {
    "classification": classification,
    "regression": regression,
    "multi-label": multi_label,
    "token-classification": token_classification,
    "segmentation": segmentation,
}

TASKS: Registry[type[TaskSpec]] = Registry(
    "task", {name: _as_spec(name, function) for name, function in _BUILT_IN.items()}, _as_spec
)
