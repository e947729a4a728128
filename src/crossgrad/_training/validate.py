"""Checks before a run begins: whether graph, data and model fit the algorithm and the task."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._network.shard import Shard
from crossgrad._network.traffic import Traffic, kinds_of
from crossgrad._numerics.global_generator import seeded
from crossgrad.algorithms.api import Algorithm, Needs
from crossgrad.algorithms.gossip_rounds import GossipRounds
from crossgrad.algorithms.zero_gradient import ZeroGradient
from crossgrad.data import Augment, Samples, StreamSamples
from crossgrad.data.augment import augmented
from crossgrad.data.nested import leaves, mapped
from crossgrad.graphs import AnyGraph, Graph, fully_connected, trees_of
from crossgrad.graphs.faults import Faults
from crossgrad.guards import RobustRule
from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel
from crossgrad.tasks import Task


def check_surroundings(model: nn.Module) -> None:
    """Raise if the program has set PyTorch, or made the model, in a way in which nothing can be trained."""
    if torch.is_inference_mode_enabled():
        raise ValueError("training needs gradients; found torch.inference_mode() switched on. Call it outside of that.")
    if torch.get_default_device().type == "meta" or any(
        tensor.is_meta for tensor in (*model.parameters(), *model.buffers())
    ):
        raise ValueError(
            "training needs tensors with values; found the device 'meta', which has shapes only, as default or in the "
            "model. Make the model on 'cpu', after torch.set_default_device('cpu')."
        )


def check_graph(algorithm: Algorithm[Any], graph: AnyGraph, agents: int) -> None:
    """Raise unless the graph has the right size and gives the algorithm what it needs."""
    name = algorithm_name(algorithm)
    if graph.agents != agents:
        raise ValueError(
            f"graph and data must have equally many agents; {graph.name!r} has {graph.agents} agents, and the data "
            f"is split over {agents}. "
            f"Make the graph with {agents} agents, or split the data over {graph.agents}."
        )
    if Needs.UNDIRECTED in algorithm.needs and not graph.undirected:
        raise ValueError(
            f"{name} needs an undirected graph, as messages go both ways; {graph.name!r} is directed"
            f"{_one_way(graph)}. Use SGP, an undirected graph such as a ring, or graph.to_undirected()."
        )
    if Needs.DOUBLY_STOCHASTIC in algorithm.needs and not graph.doubly_stochastic:
        raise ValueError(
            f"{name} needs weights whose rows and columns each sum to 1, or the average of all models drifts; those of "
            f"{graph.name!r} do not. Use SGP, or Metropolis weights: graph.to_undirected() has them."
        )
    if Needs.COLUMN_STOCHASTIC in algorithm.needs and not graph.column_stochastic:
        raise ValueError(
            f"{name} needs weights whose columns sum to 1, so that the sum of all models is kept; those of "
            f"{graph.name!r} do not. Let every sender's weights, its own included, sum to 1."
        )
    if Needs.FIXED in algorithm.needs and graph.period != 1:
        copies = Needs.RELIABLE in algorithm.needs
        why = "keeps copies of what neighbours have sent" if copies else "corrects each step by the one before"
        why = "averages along a tree" if _averages_along_tree(algorithm) else why
        raise ValueError(
            f"{name} {why}, which needs the same graph in every step; {graph.name!r} changes from step to step. "
            f"Use a fixed graph, or an algorithm such as gradient tracking, SGP or CGA."
        )
    if Needs.TREE in algorithm.needs and not trees_of(graph.at(0)):
        raise ValueError(
            f"{name} relays sums, so the graph must be a tree, with one path between any two agents; {graph.name!r} is "
            f"not one. Use binary-tree, double-binary-tree, chain or star, or make a tree of its edges: the graph "
            f"spanning-tree, in Python spanning_tree(graph)."
        )
    if Needs.EIGENVALUES in algorithm.needs:
        _check_eigenvalues(name, algorithm, graph.at(0))


def check_faults(algorithm: Algorithm[Any], graph: AnyGraph, faults: Faults) -> None:
    """Raise if what the faults leave over of the graph could not have the weights that the algorithm needs."""
    if faults.any and Needs.RELIABLE in algorithm.needs:
        raise ValueError(_refuse_faults(algorithm_name(algorithm), _averages_along_tree(algorithm)))
    if faults.any and Needs.DOUBLY_STOCHASTIC in algorithm.needs and not graph.mutual:
        raise ValueError(
            f"{algorithm_name(algorithm)} needs weights whose rows and columns each sum to 1; a directed graph "
            f"such as {graph.name!r} has none once links fail. Use SGP, an undirected graph such as a ring, or no "
            "faults."
        )


def check_robust(algorithm: Algorithm[Any], rule: RobustRule | None) -> None:
    """Raise if the algorithm does something with its neighbours that the rule cannot guard, by a step of two agents."""
    if rule is not None:
        graph = fully_connected(2)
        no_buffers = Buffers(torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.int64), ())
        traffic = Traffic(graph, kinds=kinds_of(algorithm))
        context = NetworkContext(Shard.of(2), graph, traffic, no_buffers, 0, rule)
        net = AgentNetwork(graph, context, 0)
        algorithm.step(algorithm.init(torch.zeros(2, 2), net), 0.1, ZeroGradient((2,)), net)


def algorithm_name(algorithm: Any) -> str:
    """The name of the algorithm, or of the one within gossip options."""
    return type(getattr(algorithm, "algorithm", algorithm)).__name__


def _averages_along_tree(algorithm: Any) -> bool:
    return isinstance(algorithm, GossipRounds) and algorithm.gossip.tree


def _refuse_faults(name: str, along_tree: bool) -> str:
    if along_tree:
        return (
            f"{name} averages along a tree, where every message is needed; with faults some are lost. Run it without "
            "faults, or leave out gossip.tree."
        )
    return (
        f"{name} keeps copies of what its neighbours sent, which are wrong for good once a message is lost or an agent "
        f"is absent. Run it without faults, or use an algorithm such as EDM or gradient tracking."
    )


def _check_eigenvalues(name: str, algorithm: Any, graph: Graph) -> None:
    """Raise unless all eigenvalues of (1 - lazy) Pi + lazy I are above the algorithm's `lowest`."""
    lazy: float = algorithm.lazy
    if 2 * lazy - 1 > algorithm.lowest:  # no eigenvalue of Pi is below -1
        return
    lowest = (1 - lazy) * graph.lowest_eigenvalue + lazy
    if lowest <= algorithm.lowest + 1e-9:
        raise ValueError(
            f"{name} needs averaging weights with all eigenvalues above {algorithm.lowest:.4f}, or its corrections "
            f"diverge; the lowest of {graph.name!r} with lazy = {lazy:g} is {lowest:.4f}. Set lazy = 0.5, which is "
            f"safe on every graph."
        )


def _one_way(graph: AnyGraph) -> str:
    """An example of an edge without its reverse."""
    receiver, sender, _ = graph.union().edges
    edges = set(zip(receiver.tolist(), sender.tolist(), strict=True))
    one_way = next(((j, l) for j, l in sorted(edges) if (l, j) not in edges), None)
    if one_way is None:
        return ", in its weights"
    return f": agent {one_way[0]} receives from {one_way[1]}, and {one_way[1]} does not receive from {one_way[0]}"


def check_data(
    task: Task,
    agents: Sequence[Samples],
    first: int,
    test: Samples | None,
    own_test: Sequence[Samples] | None = None,
) -> None:
    """Raise unless the labels of all agents, of which the first has this number, and of test data fit the task."""
    if own_test is not None and len(own_test) != len(agents):
        raise ValueError(f"own_test must have one data set per agent, {len(agents)}; found {len(own_test)}.")
    named = [(f"agent {first + number}", own) for number, own in enumerate(agents)]
    named += [(f"test set of agent {first + number}", own) for number, own in enumerate(own_test or ())]
    for whose, samples in [*named, *([("test set", test)] if test is not None else [])]:
        try:
            task.check_labels(samples.labels)
        except ValueError as error:
            raise ValueError(f"{whose}: {error}") from error


def check_metrics(task: Task, settles: bool) -> None:
    """Raise if metrics by class are asked of a task without classes, or a run is to settle that has no accuracy."""
    if settles and all(metric.name != "accuracy" for metric in task.metrics):
        raise ValueError(
            f"settled_points needs a test accuracy; {type(task).__name__} measures none. Add accuracy to "
            "the metrics, or leave out settled_points."
        )
    by_class = [metric.name for metric in task.metrics if metric.rank]
    if by_class and task.classes is None:
        raise ValueError(
            f"{', '.join(by_class)} has a number for each class, so it needs their number; {type(task).__name__} does "
            "not say it. Give the task a field or property `classes`, or leave the metric out."
        )


def check_streams(agents: Sequence[Samples], batch_size: int) -> None:
    """Raise if a batch is larger than what is kept of a stream, since batches are never larger than an agent's data."""
    for own in agents:
        if isinstance(own, StreamSamples) and own.goes_on and batch_size > len(own):
            raise ValueError(
                f"batch_size must be at most the {len(own)} samples that are kept of a stream; found {batch_size}. "
                f"Keep more: StreamSamples(source, head={batch_size})."
            )


def check_augment(augment: Augment, samples: Samples) -> None:
    """Raise unless the augmentation keeps samples and types, and repeats them for equal seeds."""
    inputs, _ = samples.piece(0, min(8, len(samples)))
    try:
        one, two = (augmented(augment, mapped(torch.clone, inputs), seed=0) for _ in range(2))
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"an augmentation must take the data's inputs; it fails on shape {samples.shape}: {reason}"
        ) from error
    before, after, again = ([*leaves(nested)] for nested in (inputs, one, two))
    for old, new in zip(before, after, strict=False):
        if not isinstance(new, Tensor) or len(new) != len(old) or new.dtype != old.dtype:
            found = f"{new.dtype} of shape {tuple(new.shape)}" if isinstance(new, Tensor) else f"a {type(new).__name__}"
            raise ValueError(
                f"an augmentation must return as many samples as it gets, of the same type; it got {old.dtype} of "
                f"shape {tuple(old.shape)} and returned {found}."
            )
    if len(before) != len(after) or not all(
        torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(after, again, strict=True)
    ):
        raise ValueError(
            "an augmentation draws from the generator that it gets, or from the global ones of torch, numpy.random or "
            "random, so that a resumed run draws the same; this one returned two results for equal seeds. "
            "Seed what else it draws from by generator.initial_seed()."
        )


def check_model(model: FlatModel, task: Task, samples: Sequence[Samples]) -> None:
    """Raise unless the module takes the inputs and its output fits the labels."""
    first = samples[0]
    inputs, labels = first.piece(0, min(2, len(first)))
    model.module.eval()
    try:
        with torch.no_grad(), seeded(0):
            outputs = task.apply(model.module, inputs)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        whole = isinstance(inputs, Tensor) and not inputs.is_floating_point()
        hint = ". The inputs are whole numbers; convert pixels by X.float() / 255" if whole else ""
        raise ValueError(
            f"model and data must fit together; the model does not take the data's inputs of shape {first.shape}: "
            f"{reason}{hint}"
        ) from error
    task.check_outputs(outputs, labels)
    _check_loss(model.module, task, outputs, inputs, labels)


def _check_loss(module: nn.Module, task: Task, outputs: Any, inputs: Any, labels: Any) -> None:
    """Raise unless the loss of a batch is one number."""
    try:
        with torch.no_grad(), seeded(0):
            loss = task.batch_loss(module, inputs, labels)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"loss, model and labels must fit together; the loss cannot be taken of outputs of shape "
            f"{_shape_of(outputs)} and labels of shape {_shape_of(labels)}: {reason}"
        ) from error
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
        hint = "Take its mean (reduction='mean')" if isinstance(loss, Tensor) else "Return it without .item()"
        raise ValueError(f"the loss of a batch must be a tensor with one number; found {found}. {hint}.")


def _shape_of(nested: Any) -> Any:
    return mapped(lambda part: tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__, nested)
