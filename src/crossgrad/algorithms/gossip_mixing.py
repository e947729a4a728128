"""How fast rounds of gossip mix: z_{k+1} = omega_{k+1} (z_k + gamma (Pi - I) z_k - z_{k-1}) + z_{k-1}.

Everything here is a function of the eigenvalues of the weights Pi, which are symmetric.
"""

from collections.abc import Iterable
from itertools import islice

import numpy as np


def omegas(rate: float, chebyshev: bool = True) -> Iterable[float]:
    """omega_1 = 1, omega_2, ...: the weights of accelerated rounds, or ones.

    Args:
        rate: the mixing rate of I + gamma (Pi - I).
        chebyshev: whether the rounds are accelerated.
    """
    omega = 2.0
    yield 1.0
    while True:
        omega = 1.0 / (1.0 - rate**2 * omega / 4) if chebyshev else 1.0
        yield omega


def rate_with(eigenvalues: tuple[float, ...], gamma: float) -> float:
    """The mixing rate of I + gamma (Pi - I)."""
    m = 1 - np.array(eigenvalues)
    return float(np.abs(1 - gamma * np.delete(m, np.abs(m).argmin())).max(initial=0.0))


def fastest_gamma(eigenvalues: tuple[float, ...]) -> float:
    """The gamma at which I + gamma (Pi - I) mixes fastest: its extreme eigenvalues besides 1 are opposite numbers.

    Above 1, an agent may get a negative weight in its own average; the mean of the models stays what it is.

    >>> from crossgrad.graphs import bipartite
    >>> round(fastest_gamma(tuple(bipartite(40).eigenvalues)), 3)
    2.381
    """
    m = np.sort(1 - np.array(eigenvalues))[1:]
    return float(2 / (m[0] + m[-1])) if len(m) and m[0] > 0 else 1.0


def disagreement_left(
    eigenvalues: tuple[float, ...], rounds: int, gamma: float, chebyshev: bool = False, lazy: float = 0.0
) -> float:
    """The share of the squared disagreement that an averaging leaves, if all directions have equally much of it.

    Args:
        eigenvalues: of the symmetric weights.
        rounds: rounds of one averaging.
        gamma: their step size.
        chebyshev: whether they are accelerated.
        lazy: the algorithm's share of the identity.

    >>> from crossgrad.graphs import bipartite, ring
    >>> round(disagreement_left(tuple(ring(40).eigenvalues), 2, 1.0, chebyshev=True, lazy=0.5), 2)
    0.22
    >>> round(disagreement_left(tuple(bipartite(40).eigenvalues), 2, 1.0, chebyshev=True, lazy=0.5), 2)
    0.82
    """
    m = np.sort(1 - np.array(eigenvalues))[1:]
    before = z = np.ones(len(m))
    for omega in islice(omegas(rate_with(eigenvalues, gamma), chebyshev), rounds):
        before, z = z, omega * (z - gamma * m * z - before) + before
    return float(np.square((1 - lazy) * z + lazy).mean()) if len(m) else 0.0
