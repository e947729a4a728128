"""The numbers that the paper's Lemma 1, Theorem 1 and Corollary 1 use."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """A problem, a graph and a run in the paper's symbols (Assumptions 1 to 4).

    Its Assumption 2 leaves out the square of sigma's norm; it is meant, and taken here. Where a bound is to be compared
    with one run, sigma, delta and epsilon may be root mean squares over that run: the proof needs no more
    (docs/theory.md).

    Args:
        L: every agent's gradient is L-Lipschitz.
        sigma: E|g^i - grad f_i|^2 <= sigma^2, the noise of a mini-batch.
        delta: mean over agents of |grad f_i - grad F|^2 <= delta^2, how non-IID their data is.
        epsilon: E|g~^i - g^i|^2 <= epsilon^2, what the projection changes.
        start: F at the first averaged model, minus the least value of F.
        agents: N.
        momentum: beta.
        lr: alpha.
        mixing_rate: sqrt(rho)
        steps: K.

    >>> c = Constants(L=1.0, sigma=0.5, delta=1.0, epsilon=0.0, start=2.0, agents=10, momentum=0.9, lr=1e-3)
    >>> round(c.b, 6), c.s, c.rho
    (0.1, 1.0, 0.0)
    """

    L: float  # every agent's gradient is L-Lipschitz
    sigma: float  # E|g^i - grad f_i|^2 <= sigma^2, the noise of a mini-batch
    delta: float
    epsilon: float  # E|g~^i - g^i|^2 <= epsilon^2, what the projection changes
    start: float  # F at the first averaged model, minus the least value of F
    agents: int  # N
    momentum: float  # beta
    lr: float  # alpha
    mixing_rate: float = 0.0  # sqrt(rho)
    steps: int = 1  # K

    def __post_init__(self) -> None:
        for name in ("sigma", "delta", "epsilon", "start"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0; found {getattr(self, name)}.")
        for name in ("L", "lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a finite number above 0; found {getattr(self, name)}.")
        for name in ("momentum", "mixing_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1; found {getattr(self, name)}.")
        for name in ("agents", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; found {getattr(self, name)}.")

    @property
    def b(self) -> float:
        """1 - beta."""
        return 1 - self.momentum

    @property
    def s(self) -> float:
        """1 - sqrt(rho), the spectral gap."""
        return 1 - self.mixing_rate

    @property
    def rho(self) -> float:
        """The square of the mixing rate (Assumption 4)."""
        return self.mixing_rate**2
