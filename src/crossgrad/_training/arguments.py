"""Arguments of `fit`: what a user may pass for an algorithm, a task and the like, and errors for anything else."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from crossgrad._registry.registry import HOW_TO_ADD, Registry
from crossgrad.algorithms import ALGORITHMS, CGA, Algorithm
from crossgrad.data import AUGMENTATIONS, Augment
from crossgrad.tasks import TASKS, Loss, Task
from crossgrad.tasks.infer import task_with


def check_kinds(model: Any, **others: tuple[Any, Any]) -> None:
    """Raise unless the model is a module, and each of the others is None or of its type.

    Args:
        model: what is to be trained.
        others: a value and its type, by the name of the argument.
    """
    if isinstance(model, nn.Module) and any(map(is_lazy, _tensors_of_model(model))):
        raise ValueError(
            "the model's parameters must have shapes; it has lazy layers, which get theirs from the first inputs. Call "
            "it once on a few: model(X[:2])."
        )
    if not isinstance(model, nn.Module):
        hint = " Make one of the class: model=Net()." if isinstance(model, type) else ""
        raise ValueError(f"model must be a torch.nn.Module; found {_found(model)}.{hint}")
    for name, (value, kind) in others.items():
        if value is not None and not isinstance(value, kind):
            wanted = f"a crossgrad.{kind.__name__}(...)" if inspect.isclass(kind) else "a folder's name"
            raise ValueError(f"{name} must be {wanted}; found {_found(value)}.")


def check_functions(**functions: Any) -> None:
    """Raise unless each of these, by the name of the argument, is a function or None."""
    for name, value in functions.items():
        if value is not None and not callable(value):
            raise ValueError(f"{name} must be a function; found {_found(value)}.")


def as_names(argument: str, value: Any) -> tuple[str, ...]:
    """The names of parameters or modules that a user means: one, or several.

    Args:
        argument: the name of the argument.
        value: what was passed for it.

    Raises:
        ValueError: they are no names.
    """
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{argument} must be names of parameters or modules, such as ['head']; found {_found(value)}.")
    return tuple(names)


def as_guard(argument: str, value: Any, registry: Registry[Any], members: Sequence[str]) -> Any:
    """The robust rule or privacy guard that a user may have meant: an object, or its class or name for its defaults.

    Args:
        argument: the name of the argument.
        value: what was passed for it.
        registry: of the names.
        members: what an object must have.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(value, str):
        return _named(registry, value)()
    value = value() if inspect.isclass(value) else value
    if value is not None and not all(hasattr(value, member) for member in members):
        examples = ", ".join(sorted(registry.names()))
        raise ValueError(
            f"{argument} must be an object of crossgrad.guards, or its name ({examples}); found {_found(value)}."
        )
    return value


def as_algorithm(value: Any) -> Algorithm[Any]:
    """Turn what a user passed into an algorithm.

    Args:
        value: an algorithm; its class or name, for its defaults; None: CGA.

    Raises:
        ValueError: it is none of these.
    """
    if value is None:
        return CGA()
    if isinstance(value, str):
        made: Any = _named(ALGORITHMS, value)()
    elif inspect.isclass(value) and hasattr(value, "needs"):
        try:
            made = value()
        except TypeError as error:
            raise ValueError(
                f"a class may stand for its object where all its options have defaults; {value.__name__} has others: "
                f"{error}. Pass {value.__name__}(...)."
            ) from None
    else:
        made = value
    lacking = [member for member in ("needs", "init", "step") if not hasattr(made, member)]
    if lacking or isinstance(made, torch.optim.Optimizer):
        optimiser = isinstance(value, torch.optim.Optimizer) or inspect.isclass(value)
        hint = " A rule of torch.optim goes into crossgrad.TorchOptim(...)." if optimiser else ""
        if 0 < len(lacking) < 3 and not optimiser:
            hint = f" It lacks {' and '.join(lacking)}: see docs/extending.md."
        raise ValueError(
            f"algorithm must be one such as crossgrad.CGA(momentum=0.9), or its name; found {_found(value)}.{hint}"
        )
    algorithm: Algorithm[Any] = made
    return algorithm


def as_task(task: Any, loss: Any, labels: Sequence[Any]) -> Task:
    """Turn what a user passed into a task; see `task_with`.

    Args:
        task: a task; its name; None: the one that the labels are usually for.
        loss: takes the place of the task's own.
        labels: a tensor of labels for each agent.

    Raises:
        ValueError: it is none of these, or the loss cannot be called.
    """
    if isinstance(task, str):
        whole = torch.cat(list(labels)) if all(isinstance(own, Tensor) for own in labels) else labels[0]
        task = _named(TASKS, task)().build(whole)
    if task is not None and not isinstance(task, Task):
        raise ValueError(
            f"task must be one such as crossgrad.Classification(10), or its name; found {_found(task)}. A task of your "
            f"own is crossgrad.OwnTask(loss)."
        )
    if loss is not None and (inspect.isclass(loss) or not callable(loss)):
        hint = f" Pass an object of the class: {loss.__name__}()." if inspect.isclass(loss) else ""
        raise ValueError(f"loss must be a function of outputs and labels; found {_found(loss)}.{hint}")
    chosen: Loss | None = loss
    return task_with(task, chosen, labels)


def as_augment(value: Any) -> Augment | None:
    """Turn what a user passed into an augmentation.

    Args:
        value: a function of a batch's inputs and a generator; the name of one; None: none.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(value, str):
        made: Augment = _named(AUGMENTATIONS, value)()
        return made
    if value is None:
        return None
    value = value() if inspect.isclass(value) else value
    try:
        inspect.signature(value).bind(None, None)
    except (TypeError, ValueError):
        raise ValueError(
            f"augment must be a function of a batch's inputs and a torch.Generator to draw from, or a name such as "
            f"'crop-flip'; found {_found(value)}."
        ) from None
    augment: Augment = value
    return augment


def as_state(start: Any) -> Mapping[str, Tensor]:
    """Turn what a user passed into the state dict that training begins with.

    Args:
        start: a state dict, or the path of a safetensors file, as runs and `Result.save` write it.

    Raises:
        ValueError: it is neither, or the file cannot be read.
    """
    if isinstance(start, Mapping):
        return start
    if not isinstance(start, str | Path):
        raise ValueError(f"start must be a state dict or a safetensors file; found {_found(start)}.")
    if not Path(start).is_file():
        is_what = "is a folder, a pipe or a device" if Path(start).exists() else "does not exist"
        raise ValueError(f"start must be a safetensors file, as runs write; {start} {is_what}. Name another.")
    try:
        return load_file(start)
    except (OSError, SafetensorError) as error:
        why = f"{str(error).removesuffix('.')}. Name another."
        raise ValueError(f"start must be a safetensors file, as runs write; {start}: {why}") from None


def _named(registry: Registry[Any], name: str) -> Any:
    if name not in registry:
        names = sorted(registry.names())
        near = get_close_matches(name.lower(), names, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no {registry.kind} {name!r}.{meant} Choose one of {', '.join(names)}. {HOW_TO_ADD}")
    return registry[name]


def _tensors_of_model(model: nn.Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _found(value: Any) -> str:
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    word = type(value).__name__
    return f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"
