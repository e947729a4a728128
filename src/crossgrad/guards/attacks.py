"""Simulated attacks: what a hostile agent sends instead of its model, to test robust rules.

M: messages, D: parameters.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from crossgrad._numerics.seeding import generator


@dataclass(frozen=True)
class Attack:
    """Hostile agents: they train like the others, but send something else than their models.

    Args:
        agents: the numbers of the hostile agents.
        kind: "sign-flip" sends -scale times the true message, "noise" adds Gaussian noise of scale times the root mean
            square of its numbers.
        scale: how strong the attack is, in units of the true message.

    >>> flip = Attack((1,), "sign-flip", scale=2.0)
    >>> flip(torch.tensor([[1.0], [3.0]]), [0, 1], seed=0, step=0).tolist()
    [[1.0], [-6.0]]
    """

    agents: tuple[int, ...] = ()
    kind: Literal["sign-flip", "noise"] = "sign-flip"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if any(agent < 0 for agent in self.agents):
            raise ValueError(f"hostile agents must be numbered from 0; found {min(self.agents)}.")
        if not 0 < self.scale < float("inf"):
            raise ValueError(f"scale must be above 0 and finite; found {self.scale}.")

    def check(self, agents: int) -> None:
        """Raise unless the hostile agents exist."""
        if self.agents and max(self.agents) >= agents:
            raise ValueError(f"hostile agents must be 0 to {agents - 1}; found {max(self.agents)}.")

    def __call__(self, sent_MD: Tensor, senders: list[int], seed: int, step: int) -> Tensor:
        """The messages that are sent: those of honest agents as they are. The argument is not changed."""
        if not self.agents:
            return sent_MD
        hostile = [place for place, agent in enumerate(senders) if agent in self.agents]
        if not hostile:
            return sent_MD
        sent_MD = sent_MD.clone()
        for place in hostile:
            row_D = sent_MD[place]
            if self.kind == "sign-flip":
                row_D.mul_(-self.scale)
            else:
                normal = generator(seed, "attack", step, senders[place]).standard_normal(len(row_D))
                row_D.add_(torch.from_numpy(normal).to(row_D), alpha=self.scale * float(row_D.square().mean().sqrt()))
        return sent_MD
