"""The agents' buffers, such as BatchNorm's running statistics: each agent's own, averaged with its model.

N: agents, F: floating numbers in the buffers of one model, I: integers in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from crossgrad._storage.stateful import Stateful
from crossgrad.models.personal import personal_names


class BufferSlot(NamedTuple):
    """Where one buffer of the module lies in the flat row of an agent."""

    owner: nn.Module
    name: str
    floating: bool
    start: int
    shape: torch.Size


@dataclass
class Buffers(Stateful):
    """All buffers of all agents as flat rows.

    Floating buffers are averaged with the weights of the models they belong to. Integer ones (BatchNorm's count of
    batches) are not something that can be averaged: they stay with their agent. So do those that are personal; they
    lie last.
    """

    constants: ClassVar[tuple[str, ...]] = ("slots", "shared")

    floats_NF: Tensor
    integers_NI: Tensor
    slots: tuple[BufferSlot, ...]
    shared: int | None = None  # floating numbers that travel, the first of all; None: all

    @classmethod
    def of(cls, model: nn.Module, agents: int, personal: Sequence[str] = ()) -> "Buffers":
        """The module's present buffers, a copy for each agent; those that match `personal` do not travel."""
        slots, rows = [], {True: [], False: []}  # type: ignore[var-annotated]
        own = personal_names(model, personal) if personal else set()
        every = [
            (f"{path}.{name}" if path else name, owner, name, buffer)
            for path, owner in model.named_modules()
            for name, buffer in owner.named_buffers(recurse=False)
        ]
        every.sort(key=lambda each: each[0] in own)
        shared = sum(buffer.numel() for full, _, _, buffer in every if full not in own and buffer.is_floating_point())
        for _, owner, name, buffer in every:
            if buffer.layout != torch.strided:
                raise ValueError(
                    f"buffers must be dense tensors, as they travel with the model; {name!r} is {buffer.layout}. Make "
                    f"it dense by .to_dense(), or keep it as a plain attribute."
                )
            floating = buffer.is_floating_point()
            start = sum(part.numel() for part in rows[floating])
            slots.append(BufferSlot(owner, name, floating, start, buffer.shape))
            rows[floating].append(buffer.detach().reshape(-1))
        example = next(model.parameters())
        floats = torch.cat(rows[True]) if rows[True] else example.new_zeros(0)
        integers = torch.cat([part.long() for part in rows[False]]) if rows[False] else torch.zeros(0).long()
        return cls(floats.repeat(agents, 1), integers.to(example.device).repeat(agents, 1), tuple(slots), shared)

    def row(self, agent: int) -> tuple[Tensor, Tensor]:
        """One agent's buffers; a pass that writes to them changes the agent's state."""
        return self.floats_NF[agent], self.integers_NI[agent]

    def copy_of(self, agent: int) -> tuple[Tensor, Tensor]:
        """A copy of one agent's buffers, for a pass that must leave no trace."""
        floats, integers = self.row(agent)
        return (floats.clone(), integers.clone()) if self.slots else (floats, integers)

    def equal(self, agent: int, other: int) -> bool:
        """Whether two agents have the same buffers."""
        return all(torch.equal(a, b) for a, b in zip(self.row(agent), self.row(other), strict=True))

    def load(self, floats_F: Tensor, integers_I: Tensor) -> None:
        """Make these rows the module's buffers."""
        for owner, name, floating, start, shape in self.slots:
            row = floats_F if floating else integers_I
            part = row[start : start + shape.numel()].view(shape)
            old = owner._buffers[name]
            owner._buffers[name] = part if old is None or part.dtype == old.dtype else part.to(old.dtype)

    def store(self, floats_F: Tensor, integers_I: Tensor) -> None:
        """Copy buffers back that the module replaced by new tensors instead of changing them in place."""
        for owner, name, floating, start, shape in self.slots:
            row = floats_F if floating else integers_I
            part, now = row[start : start + shape.numel()].view(shape), owner._buffers[name]
            if now is not None and now.data_ptr() != part.data_ptr():
                part.copy_(now)
