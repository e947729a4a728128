"""Objects that carry the state of a run: what a checkpoint holds is the sum of theirs.

Every tensor of a state has the agents of this process as axis 0, so that a checkpoint can be cut and joined for
another number of processes. Everything else is a plain value (a number, a text, a list of numbers or texts) that all
processes share.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

StateDict = dict[str, Any]  # of tensors, plain values and state dicts


class Stateful:
    """An object whose attributes are its state, except for those that `constants` names.

    So nothing new is forgotten: an attribute that a subclass or a later version adds is saved and restored, and one
    that cannot be saved is refused with its name when the first checkpoint is written.

    >>> import torch
    >>> class Counter(Stateful):
    ...     constants = ("limit",)
    ...     def __init__(self):
    ...         self.limit, self.step, self.drawn = 9, 0, torch.zeros(2)
    >>> Counter().state_dict()
    {'step': 0, 'drawn': tensor([0., 0.])}
    """

    constants: ClassVar[tuple[str, ...]] = ()  # attributes that are made anew from the experiment

    def state_dict(self) -> StateDict:
        """Return the state; its tensors are the object's own, so use it before they change.

        Raises:
            TypeError: an attribute is neither a constant nor a tensor, a plain value or an object with a state.
        """
        values = {name: value for name, value in vars(self).items() if name not in self.constants}
        return {name: self._state_of(name, value) for name, value in values.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state; its tensors are copied.

        Raises:
            ValueError: the state has other names, shapes or types than this object's own.
        """
        if wrong := difference(self.state_dict(), state):
            raise ValueError(
                f"a saved state must have the names, shapes and types of this run; {wrong}. Load it with the same "
                "model, graph and algorithm."
            )
        for name, saved in state.items():
            own = getattr(self, name)
            if isinstance(own, Stateful):
                own.load_state_dict(saved)
            elif isinstance(own, Tensor | tuple):
                _copy(own, saved)
            else:
                setattr(self, name, saved)

    def _state_of(self, name: str, value: Any) -> Any:
        if isinstance(value, Stateful):
            return value.state_dict()
        if isinstance(value, tuple) and hasattr(value, "_asdict"):  # an algorithm's state: a NamedTuple of tensors
            return {field: self._state_of(f"{name}.{field}", part) for field, part in value._asdict().items()}
        plain = isinstance(value, list) and all(isinstance(part, str | int | float) for part in value)
        if isinstance(value, Tensor | bool | int | float | str) or plain:
            return value
        raise TypeError(
            f"{type(self).__name__}.{name} must be a tensor, a plain value or a Stateful object to be part of a "
            f"checkpoint; found {type(value).__name__}. Make it one, or name it in `constants` if a run does not "
            "change it."
        )


def flatten(state: Mapping[str, Any], prefix: str = "") -> StateDict:
    """Return a nested state as one level, with names joined by dots.

    >>> flatten({"oracle": {"drawn": 3}, "step": 1})
    {'oracle.drawn': 3, 'step': 1}
    """
    flat: StateDict = {}
    for name, value in state.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


def unflatten(flat: Mapping[str, Any]) -> StateDict:
    """Return the nested state that `flatten` was given.

    >>> unflatten({"oracle.drawn": 3, "step": 1})
    {'oracle': {'drawn': 3}, 'step': 1}
    """
    state: StateDict = {}
    for path, value in flat.items():
        *outer, name = path.split(".")
        inner = state
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[name] = value
    return state


def difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Say how a state differs in its names, shapes and types from another; empty where it does not."""
    ours, theirs = (
        {name: _kind_of_value(value) for name, value in flatten(part).items()} for part in (expected, found)
    )
    for name in sorted(ours | theirs):
        if ours.get(name) != theirs.get(name):
            return f"expected {name} of {ours.get(name)}, found {theirs.get(name)}"
    return ""


def _kind_of_value(value: Any) -> Any:
    return (
        (*value.shape, str(value.dtype).removeprefix("torch.")) if isinstance(value, Tensor) else type(value).__name__
    )


def _copy(own: Any, saved: Any) -> None:
    """Write saved tensors over our own, or over those of a NamedTuple."""
    if isinstance(own, Tensor):
        own.copy_(saved)
    else:
        for name, part in own._asdict().items():
            _copy(part, saved[name])
