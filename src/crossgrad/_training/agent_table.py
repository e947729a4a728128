"""One row of numbers per agent, gathered from all processes at evaluations.

n: agents of this process, N: of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from crossgrad._network.wire import PeerError
from crossgrad._processes.group import Group

Columns = Mapping[str, Tensor]  # a number or a row of numbers for each agent; NaN where it is not known

MAX_EXACT_COUNT = 2.0**53


@dataclass(frozen=True, eq=False)
class AgentTable:
    """The columns of all agents, in the order of the agents."""

    columns: dict[str, Tensor]  # float64

    @classmethod
    def gather(cls, group: Group, own: Columns) -> "AgentTable":
        """The columns of all agents. Collective: every process must call it, with the same names."""
        parts = {name: values.double().cpu().reshape(len(values), -1) for name, values in own.items()}
        together = group.gather(torch.cat(list(parts.values()), dim=1), group.agents_of_each())
        columns = torch.split(together, [part.shape[1] for part in parts.values()], dim=1)
        table = cls({name: all_N.reshape(-1, *own[name].shape[1:]) for name, all_N in zip(parts, columns, strict=True)})
        for name in (name for name, values in own.items() if not values.is_floating_point()):
            table._check(name, table._whole(name, 0, MAX_EXACT_COUNT), "a count")
        return table

    def check_steps(self, column: str, last: int) -> None:
        """Raise PeerError unless the numbers of a column are steps up to the last one, or infinite for none."""
        self._check(column, self._whole(column, 1, last) | self[column].isposinf(), f"a step from 1 to {last}")

    def _whole(self, column: str, least: float, most: float) -> Tensor:
        """Which numbers of a column are whole, and within these bounds."""
        return (self[column] >= least) & (self[column] <= most) & (self[column] % 1 == 0)

    def _check(self, column: str, right: Tensor, expected: str) -> None:
        """Raise PeerError, with the agent's name, for the first number of a column that cannot be."""
        wrong = ~right.reshape(len(right), -1)
        for agent, place in wrong.nonzero().tolist():
            value = float(self[column].reshape(len(right), -1)[agent, place])
            raise PeerError(
                f"agent {agent} reported {value:g} as its {column} at an evaluation, and this must be {expected}; it "
                "is not used."
            )

    def __getitem__(self, column: str) -> Tensor:
        return self.columns[column]

    def known(self, column: str) -> list[float]:
        """The known numbers of a column; empty if there is no such column."""
        return [value for value in self.columns.get(column, torch.empty(0)).tolist() if value == value]

    @property
    def loss(self) -> float:
        """The averaged model's loss on all agents' training data."""
        weights = self["samples"]
        return float((weights * self["loss"]).sum() / weights.sum())

    def bytes_by_kind(self) -> dict[str, int]:
        """Bytes sent so far by kind of message, for kinds that have been sent."""
        sent = {kind: int(self[f"bytes.{kind}"].sum()) for kind in sorted(self._kinds())}
        return {kind: total for kind, total in sent.items() if total > 0}

    def bytes_by_agent(self) -> list[int]:
        """Bytes sent so far by each agent."""
        return [int(sent) for sent in torch.stack([self[f"bytes.{kind}"] for kind in self._kinds()]).sum(dim=0)]

    def _kinds(self) -> list[str]:
        return [column.removeprefix("bytes.") for column in self.columns if column.startswith("bytes.")]
