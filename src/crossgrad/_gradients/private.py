"""Gradients under a privacy guard: sample by sample, clipped, with noise, and a count of how often samples were used.

n: agents of this process, D: parameters.
"""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from crossgrad._gradients.oracle import DrawnBatch, Oracle
from crossgrad.guards.privacy import PrivacyGuard, clip_, secret_generator


class PrivateOracle(Oracle):
    """An oracle all of whose gradients are clipped and have noise.

    One pass per sample, so that layers cannot mix samples before they are clipped; a gradient takes several times as
    long as one of the whole batch.

    Attributes:
        secret: what the noise is drawn from. In a simulation the experiment's seed; a site draws one that only it has.
    """

    constants: ClassVar[tuple[str, ...]] = (*Oracle.constants, "guard", "secret", "_tallies", "_tallied")

    def __init__(self, guard: PrivacyGuard, secret: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.buffers.slots:
            raise ValueError(
                "a privacy guard needs a model without buffers, as those of batch normalisation are averages of "
                "samples and would be sent without noise; found some. Use GroupNorm or LayerNorm."
            )
        guard.check()
        self.guard, self.secret, self.micro_batch = guard, secret, 1
        self.asked = torch.zeros(len(self.samples), dtype=torch.int64)  # gradients on the present batch
        self.most_asked = torch.zeros(len(self.samples), dtype=torch.int64)  # on any batch
        self._tallies = [np.zeros(len(own), np.int64) for own in self.samples]
        self._tallied = [0] * len(self.samples)  # how many batches are counted in `_tallies`

    def uses(self) -> Tensor:
        """For every agent, how often its most used sample was used: the sum over gradients of (times in its batch)^2.

        A batch between two epochs may hold a sample twice; that moves the sum by 2 clip, which counts as four uses.
        """
        uses_n = torch.zeros(len(self.samples), dtype=torch.int64)
        for j, tally in enumerate(self._tallies):
            if self._tallied[j] > int(self.drawn[j]):  # the run went back to an earlier checkpoint
                tally[:], self._tallied[j] = 0, 0
            for number in range(self._tallied[j], int(self.drawn[j])):
                which, times = np.unique(self.batches.indices(self.first + j, number), return_counts=True)
                tally[which] += times**2
            self._tallied[j] = int(self.drawn[j])
            uses_n[j] = int(tally.max()) * int(self.most_asked[j])
        return uses_n

    def _draw(self, active_N: Tensor | None) -> list[int]:
        who = super()._draw(active_N)
        self.asked[who] = 0
        return who

    def _backward_on(
        self, batch: DrawnBatch, x_D: Tensor, buffers: tuple[Tensor, Tensor], agent: int, g_D: Tensor
    ) -> float:
        total, one_D, count = 0.0, torch.zeros_like(g_D), 0
        for inputs, labels, share in self._pieces(batch):
            self.model.load(x_D, one_D.zero_())
            loss = self.task.batch_loss(self.model.module, inputs, labels)
            loss.backward()  # type: ignore[no-untyped-call]
            self._take_strays(one_D)
            g_D.add_(clip_(one_D, self.guard.clip), alpha=share)
            total += share * float(loss.detach())
            count += 1
        number = int(self.drawn[agent]) - 1
        self.guard.add_noise_(g_D, count, secret_generator(self.secret, self.first + agent, number, x_D))
        self.evaluations[agent] += 1
        self.asked[agent] += 1
        self.most_asked[agent] = max(self.most_asked[agent], self.asked[agent])
        return total
