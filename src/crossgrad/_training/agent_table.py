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

MAX_COUNT = 2.0**53


@dataclass(frozen=True, eq=False)
class AgentTable:
    """The columns of all agents, in the order of the agents."""

    columns: dict[str, Tensor]  # float64

    @classmethod
    def gather(cls, group: Group, own: Columns) -> "AgentTable":
        """The columns of all agents. Collective: every process must call it, with the same names."""
        parts = {name: values.double().cpu().reshape(len(values), -1) for name, values in own.items()}
        together = group.gather(torch.cat(list(parts.values()), dim=1))
        columns = torch.split(together, [part.shape[1] for part in parts.values()], dim=1)
        table = cls({name: all_N.reshape(-1, *own[name].shape[1:]) for name, all_N in zip(parts, columns, strict=True)})
        for name in (name for name, values in own.items() if not values.is_floating_point()):
            table.check_counts(name)
        return table

    def check_counts(self, column: str) -> None:
        """Raise PeerError if a number of this column is not a count."""
        values = self[column].reshape(len(self[column]), -1)
        wrong = ~((values >= 0) & (values < MAX_COUNT)).all(dim=1)
        for agent in wrong.nonzero()[:, 0].tolist():
            raise PeerError(
                f"agent {agent} reported {values[agent].tolist()[0]:g} as its {column} at an evaluation, and this must "
                "be a count; it is not used."
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
