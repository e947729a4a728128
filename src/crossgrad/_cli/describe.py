"""`crossgrad list NAME`: rule, reference, needs, cost and options of one thing that can be named."""

import dataclasses
import inspect
import re
from typing import Any

from crossgrad.tasks.metric import Metric

DEFAULT_LR = 0.01  # of every schedule
COST_MODEL_PARAMETERS = 80_000  # of the model that costs are shown for
# With the paragraph that introduces it, which ends in a colon.
PYTHON_EXAMPLE = re.compile(r"(\n\n[^\n]+(\n[^\n]+)*:)?\n\n *>>> .*", re.DOTALL)
NEEDS_IN_WORDS = {
    "UNDIRECTED": "an undirected graph",
    "DOUBLY_STOCHASTIC": "doubly stochastic weights",
    "COLUMN_STOCHASTIC": "weights whose columns sum to 1 (directed graphs too)",
    "FIXED": "the same graph in every step",
    "TREE": "a tree or a double binary tree",
    "RELIABLE": "no faults",
    "EIGENVALUES": "weights without very negative eigenvalues (or lazy = 0.5)",
}


def describe(name: str, entry: Any) -> str:
    """The description of an entry of a registry, as paragraphs."""
    if isinstance(entry, Metric):
        return f"{name}\n\n{_metric(entry)}"
    parts = [name, _documentation(entry) or str(getattr(entry, "description", ""))]
    made = _made_by_default(entry)
    if made is not None and not isinstance(entry, type):  # a ready-made variant of a class
        parts.append(f"{type(made).__name__}: {_documentation(type(made))}")
    if hasattr(made, "needs"):
        parts += [_needs(made), _cost(made), _step_size(made)]
    kind = type(made) if made is not None else entry
    if dataclasses.is_dataclass(kind):
        parts.append(_options(kind, made))
    return "\n\n".join(part for part in parts if part)


def _documentation(thing: Any) -> str:
    """The docstring without its Python example, which is no use on the command line."""
    return PYTHON_EXAMPLE.sub("", inspect.getdoc(thing) or "")


def _metric(metric: Metric) -> str:
    """What a metric is, and where it shows."""
    what = {0: "One number", 1: "One number for each class", 2: "One number for each pair of classes"}[metric.rank]
    text = f"{metric.label[:1].upper()}{metric.label[1:]}. {what}" + (", in percent" if metric.percent else "")
    if metric.rank:
        return f"{text}, in the records."
    worst = "lowest" if metric.higher_is_better else "highest"
    return f"{text}, in records, tables, SQL and on the page; the worst agent is the one with the {worst}."


def _made_by_default(entry: Any) -> Any:
    """The entry without options; None if it needs some."""
    try:
        return entry()
    except TypeError:
        return None


def _needs(algorithm: Any) -> str:
    words = [NEEDS_IN_WORDS[need.name] for need in algorithm.needs]
    return "Needs: " + ", ".join(words) + "."


def _cost(algorithm: Any) -> str:
    """Numbers per edge and gradients per agent in a step, counted on a few agents."""
    import torch

    from crossgrad._forecast.dry_steps import count_step_cost
    from crossgrad.algorithms import Needs
    from crossgrad.graphs import chain, ring

    graph = chain(5) if Needs.TREE in algorithm.needs else ring(5)
    cost = count_step_cost(algorithm, graph, [COST_MODEL_PARAMETERS], torch.float32, 0, 0)
    share = sum(cost.bytes_by_kind.values()) / 4 / COST_MODEL_PARAMETERS / graph.messages
    return (
        f"Cost per step: {share:.3g} P numbers of 4 bytes on every edge on average (P: parameters). "
        f"Gradients per step of an agent with two neighbours: {cost.gradients / graph.agents:.3g}."
    )


def _step_size(algorithm: Any) -> str:
    """A step size that works on the demo's data with the default options."""
    size = getattr(algorithm, "step_size", None)
    if size is None:
        return ""
    text = f"Step size: {size:g} learns digits (IID, on a ring of 10 agents, in 300 steps) with the options below."
    return text if size == DEFAULT_LR else f"{text} Set it; an experiment's step size is {DEFAULT_LR:g} by default."


def _options(kind: type, made: Any) -> str:
    fields = dataclasses.fields(kind)
    if not fields:
        return "It takes no options."
    lines = [f"  {field.name} = {_shown_default(field, made)}" for field in fields]
    return "Options, with their defaults:\n" + "\n".join(lines)


def _shown_default(field: Any, made: Any) -> str:
    if made is not None:
        return repr(getattr(made, field.name))
    return "needed" if field.default is dataclasses.MISSING else repr(field.default)
