"""Own gradients that are computed where they are used, so that those of all agents are never held at once.

N: agents, R: agents of a block, D: parameters.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from crossgrad.oracle import Oracle


class StreamedOracle(Oracle):
    """An oracle whose own gradients can come block by block."""

    def on_demand(self, x_ND: Tensor, active_N: Tensor | None = None) -> Callable[[slice], Tensor]:
        """As a call, but gradients are computed when their rows are asked for, once; batches are drawn now.

        A model with buffers is another matter: an own pass changes them, and all own passes come before the first
        answer, so all are computed at once.
        """
        if self.buffers.slots:
            g_ND = self(x_ND, active_N)
            return lambda rows: g_ND[rows]
        active = [True] * len(x_ND) if active_N is None else active_N.tolist()
        for j in range(len(x_ND)):
            if active[j]:
                self._draw(j)
        return lambda rows: self._own(x_ND, [j for j in range(len(x_ND))[rows] if active[j]], rows)

    def _own(self, x_ND: Tensor, who: list[int], rows: slice) -> Tensor:
        """The gradients of these agents, all within `rows`, on the batches that they drew last."""
        g_RD = torch.zeros_like(x_ND[rows])
        places = [j - rows.start for j in who]
        if self._together(who):
            g_RD[places], losses = self._batched([x_ND[j] for j in who], who)
            self.losses[who] = losses.double().cpu()
        else:
            with self._training():
                for place, j in zip(places, who, strict=True):
                    self.losses[j] = self._backward(x_ND[j], self.buffers.row(j), j, g_RD[place])
        self.loss_sums[who] += self.losses[who]
        self.loss_counts[who] += 1
        return g_RD
