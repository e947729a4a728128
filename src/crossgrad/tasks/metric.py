"""What a metric is: collected batch by batch, one number in the end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from crossgrad._registry.registry import HOW_TO_ADD, Registry


@dataclass(frozen=True)
class Metric:
    """One number, or one per class, that says how well a model does.

    Attributes:
        name: in records and SQL: a Python identifier.
        label: in words, for tables and axes.
        collect: a function of the scores and targets of a batch (`Task.predictions`) that returns what is kept of it.
            Metrics with the same function share what it returns.
        value: a function of what was kept of all batches that returns the value; NaN if there is none.
        percent: whether it is a share that is shown in percent.
        higher_is_better: whether a higher value is better, which decides which agent is the worst.
        rank: 0 for one number, 1 for one per class, 2 for one per pair of classes.

    >>> hits = Metric("hits", "hits", lambda scores, targets: (scores.argmax(1) == targets).sum(), sum)
    >>> int(hits.value([hits.collect(torch.eye(3), torch.tensor([0, 1, 1]))]))
    2
    """

    name: str
    label: str
    collect: Callable[[Tensor, Tensor], Any]
    value: Callable[[Sequence[Any]], float | Tensor]
    percent: bool = False
    higher_is_better: bool = True
    rank: int = 0


def pair(scores: Any, targets: Any) -> tuple[Any, Any]:
    """Keep the scores and targets of a batch as they are, on the CPU."""
    return _mapped_nest(_on_cpu, scores), _mapped_nest(_on_cpu, targets)


def _mapped_nest(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """The function's results on what nestings (tuples, dicts) hold, in the same nesting."""
    if isinstance(first, Mapping):
        return {name: _mapped_nest(function, part, *(other[name] for other in others)) for name, part in first.items()}
    if isinstance(first, tuple | list):
        return tuple(_mapped_nest(function, *parts) for parts in zip(first, *others, strict=True))
    return function(first, *others)


def _on_cpu(part: Any) -> Any:
    return part.cpu() if isinstance(part, Tensor) else part


def _joined_outputs(*parts: Any) -> Any:
    """Concatenate the parts of all batches; what is not a tensor becomes a tuple with one entry per batch."""
    return torch.cat(parts) if all(isinstance(part, Tensor) and part.ndim for part in parts) else parts


def own_metric(name: str, function: Any, **look: Any) -> Metric:
    """A metric of one's own.

    Args:
        name: a Python identifier.
        function: a function of the scores and targets of all samples that returns a number, or a `torchmetrics.Metric`.
            Outputs and labels that are tuples or dicts are passed as such, with all samples in each tensor.
        look: other fields of `Metric`, such as `percent` or `higher_is_better`.

    >>> worst = own_metric("worst", lambda scores, targets: float((scores - targets).abs().max()))
    >>> worst.value([worst.collect(torch.ones(2), torch.zeros(2)), worst.collect(torch.ones(1), torch.ones(1))])
    1.0
    """
    if hasattr(function, "update") and hasattr(function, "compute") and hasattr(function, "reset"):

        def value(parts: Sequence[Any]) -> float:
            function.reset()
            for scores, targets in parts:
                function.update(scores, targets)
            return float(function.compute())

        better = getattr(function, "higher_is_better", None)
        look = {"higher_is_better": True if better is None else bool(better)} | look
    elif callable(function):

        def value(parts: Sequence[Any]) -> float:
            return float(function(*(_mapped_nest(_joined_outputs, *(part[k] for part in parts)) for k in (0, 1))))
    else:
        raise ValueError(
            f"a metric is a function of scores and targets or a torchmetrics.Metric; found {function!r:.60} for "
            f"{name!r}. Pass one of these, or the name of a metric: crossgrad.tasks.METRICS."
        )
    return Metric(name, look.pop("label", name.replace("_", " ")), pair, value, **look)


def named_metric(name: str, thing: Any) -> Metric:
    """The metric that is registered under a name: a `Metric`, or a function of scores and targets.

    Raises:
        ValueError: the name cannot be a column of tables, or the thing is neither.
    """
    if not name.isidentifier():
        raise ValueError(f"the name of a metric must suit a column of tables: letters, digits and _; found {name!r}.")
    return replace(thing, name=name) if isinstance(thing, Metric) else own_metric(name, thing)


def as_metrics(wanted: Any, known: Mapping[str, Metric], own: Iterable[Metric] = ()) -> tuple[Metric, ...]:
    """Metrics from names, `Metric` objects, or a dict of functions or `torchmetrics` objects by name.

    Args:
        wanted: one or several of these.
        known: the metrics that have names.
        own: the task's own, which come first: accuracy means another thing where samples have several labels.

    Raises:
        ValueError: a name is not known, or a metric of one's own has none.
    """
    if isinstance(wanted, Mapping):
        return tuple(one if isinstance(one, Metric) else own_metric(name, one) for name, one in wanted.items())
    if isinstance(wanted, str | Metric) or not isinstance(wanted, Iterable):
        wanted = [wanted]
    found, of_task = [], {metric.name: metric for metric in own}
    for one in wanted:
        if isinstance(one, str) and one not in known and one not in of_task:
            valid = ", ".join(sorted(known.names() if isinstance(known, Registry) else known))
            raise ValueError(f"metrics: there is no {one!r}. Valid are: {valid}. {HOW_TO_ADD}")
        if not isinstance(one, str | Metric):
            raise ValueError(f"metrics of one's own need names; found {one!r:.60}. Pass a dict: {{'my_metric': ...}}.")
        found.append((of_task.get(one) or known[one]) if isinstance(one, str) else one)
    return tuple(found)
