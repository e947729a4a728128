"""Gradients whose computing time is added to the simulated clock."""

import numpy as np
from torch import Tensor

from crossgrad._gradients.wrapper import GradientWrapper
from crossgrad._network.clock import Clock
from crossgrad.algorithms.api import CrossGradient


class TimedGradient(GradientWrapper):
    """Adds the time of gradients at the agents' own models to the clock; the network adds that of cross-gradients."""

    def __init__(self, gradient: CrossGradient, clock: Clock) -> None:
        super().__init__(gradient)
        self.clock = clock

    def select(self, x_ND: Tensor, active_N: Tensor | None) -> Tensor | None:
        counts = np.ones(len(x_ND), np.int64) if active_N is None else active_N.cpu().numpy().astype(np.int64)
        self.clock.add_gradients(counts)
        return active_N
