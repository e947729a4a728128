"""How much rounding error compressed gossip tolerates, and the largest step size gamma that is safe.

Between two averagings agents do not move here: what is asked is whether the rounding errors of compressed rounds, which
enter the next differences, die out by themselves. In an eigenvector of Pi with eigenvalue 1 - m, a round is

    h_k = z_k + e_k,    z_{k+1} = omega_{k+1} (z_k - gamma m h_k - z_{k-1}) + z_{k-1},

and the error e_k of an unbiased codec has mean 0 and variance sigma^2 times the mean, over eigenvectors, of
(z_k - h_{k-1})^2. The errors of one step are thus a linear function of those before: with H[r, s] the sum over all
later steps of the squared response of round r's difference to a unit error in round s, averaged over eigenvectors,
errors die out in mean square if and only if sigma^2 times the spectral radius of H is below 1 (the small-gain theorem
for multiplicative noise). So 1 / radius(H) is the error that is tolerated.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

ERROR_MARGIN = 4.0  # real differences have heavier tails than a normal distribution: docs/open-problem.md
RESPONSE_STEPS = 400  # steps after which a response is negligible
GAMMAS = tuple(round(0.05 * k, 2) for k in range(20, 0, -1))  # tried from the largest down


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
    1.857
    """
    m = np.sort(1 - np.array(eigenvalues))[1:]
    return float(2 / (m[0] + m[-1])) if len(m) and m[0] > 0 else 1.0


@lru_cache(maxsize=4096)
def tolerated_error(
    eigenvalues: tuple[float, ...], rounds: int, gamma: float, chebyshev: bool = False, lazy: float = 0.0
) -> float:
    """The relative error E|Q(d) - d|^2 / |d|^2 below which rounding errors die out.

    The smaller of two: for methods that average their models, and for those that average 2 x - x_before, as exact
    diffusion and EDM do.

    Args:
        eigenvalues: of the symmetric weights Pi, with the largest, 1.
        rounds: rounds of one averaging.
        gamma: their step size.
        chebyshev: whether they are accelerated.
        lazy: share of the identity that the algorithm adds after the rounds.

    >>> from crossgrad.graphs import ring
    >>> eigenvalues = tuple(ring(40).eigenvalues)
    >>> round(tolerated_error(eigenvalues, 4, 1.0, chebyshev=True, lazy=0.5), 2)
    0.02
    >>> round(tolerated_error(eigenvalues, 4, 0.5, chebyshev=True, lazy=0.5), 2)
    0.24
    """
    radii = [_radius(np.array(eigenvalues) - 1, rounds, gamma, chebyshev, lazy, corrected) for corrected in (0, 1)]
    return float(1 / max(*radii, 1.0))


def safe_gamma(
    eigenvalues: tuple[float, ...], error: float, rounds: int, chebyshev: bool = False, lazy: float = 0.0
) -> float:
    """The largest gamma, in steps of 0.05, that tolerates `ERROR_MARGIN` times the error of a codec.

    It is at most 1, and in accelerated rounds at most `fastest_gamma` where that is above 1.

    Args:
        eigenvalues: of the symmetric weights.
        error: relative error of the codec on normal numbers, `codec.relative_error(D)`.
        rounds: rounds of one averaging.
        chebyshev: whether they are accelerated.
        lazy: the algorithm's share of the identity.

    Raises:
        ValueError: if none of them does.
    """
    above = int((fastest_gamma(eigenvalues) - 1) / 0.05) if chebyshev else 0
    for gamma in (*(round(1 + 0.05 * k, 2) for k in range(above, 0, -1)), *GAMMAS):
        if tolerated_error(eigenvalues, rounds, gamma, chebyshev, lazy) >= ERROR_MARGIN * error:
            return gamma
    best = tolerated_error(eigenvalues, rounds, GAMMAS[-1], chebyshev, lazy)
    raise ValueError(
        f"no step size of the gossip is safe: a codec whose error is at most {best / ERROR_MARGIN:.2g} of what it "
        f"encodes is needed; found {error:.2g}. Take a finer codec, such as one with more bits, or set gamma yourself."
    )


def _radius(m: NDArray[np.float64], rounds: int, gamma: float, chebyshev: bool, lazy: float, corrected: int) -> float:
    """Spectral radius of H for the eigenvalues m of Pi - I."""
    weights = list(islice(omegas(rate_with(tuple(1 + m), gamma), chebyshev), rounds))
    H = np.zeros((rounds, rounds))
    x = before = hat = np.zeros((rounds, len(m)))  # row s: the response to an error in round s of the first step
    for step in range(RESPONSE_STEPS):
        start, before = x + corrected * (x - before), x
        z = z_before = start
        for r, omega in enumerate(weights):
            H[r] += ((z - hat) ** 2).mean(axis=1)
            hat = z.copy()
            if step == 0:
                hat[r] += 1
            z, z_before = omega * (z + gamma * m * hat - z_before) + z_before, z
        x = lazy * start + (1 - lazy) * z
    return float(np.abs(np.linalg.eigvals(H)).max())
