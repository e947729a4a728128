"""How much rounding error compressed gossip tolerates, and which step size gamma is safe.

Between two averagings agents do not move here: what is asked is whether the rounding errors of compressed rounds, which
enter the next differences, die out by themselves. A round is, with rows of agents,

    h_k = z_k + e_k,    z_{k+1} = omega_{k+1} (z_k + gamma (Pi - I) h_k - z_{k-1}) + z_{k-1},

and the error of agent i by an unbiased codec has mean 0, is independent of the others', and has variance sigma^2 times
the square of what the agent encodes, (z_k - h_{k-1})_i. So the variances of what is encoded are a linear function of
those before: with H[(r, i), (s, j)] the sum over all later steps of the squared response of agent i's difference in
round r to a unit error of agent j in round s, errors die out in mean square if and only if sigma^2 times the spectral
radius of H is below 1 (the small-gain theorem for multiplicative noise). 1 / radius(H) is the error that is tolerated.

On a graph whose agents are all alike, such as a ring, H may be averaged over agents, and needs eigenvalues only. On
others, such as K_{2,N-2}, that is far too hopeful: the hubs' errors are those that grow.

N: agents, R: rounds of an averaging.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

import numpy as np

from crossgrad._numerics.arrays import Floats
from crossgrad.algorithms.gossip_mixing import fastest_gamma, omegas, rate_with

ERROR_MARGIN = 2.0  # real differences have heavier tails than a normal distribution: docs/open-problem.md
MOST_AGENTS = 64  # for which H is computed agent by agent; for more, its average over agents
NOTHING = 1e-7  # of a response that has died out
RESPONSE_STEPS = 400  # steps after which a response is negligible
GAMMAS = tuple(round(0.05 * k, 2) for k in range(20, 0, -1))  # in steps of a twentieth


def tolerated_error(weights: Floats, rounds: int, gamma: float, chebyshev: bool = False, lazy: float = 0.0) -> float:
    """The relative error E|Q(d) - d|^2 / |d|^2 below which rounding errors die out.

    The smaller of two: for methods that average their models, and for those that average 2 x - x_before, as exact
    diffusion and EDM do.

    Args:
        weights: Pi, symmetric, N x N.
        rounds: rounds of one averaging.
        gamma: their step size.
        chebyshev: whether they are accelerated.
        lazy: share of the identity that the algorithm adds after the rounds.

    >>> from crossgrad.graphs import bipartite, ring
    >>> round(tolerated_error(ring(40).dense(), 4, 1.0, chebyshev=True, lazy=0.5), 2)
    0.02
    >>> round(tolerated_error(ring(40).dense(), 4, 0.5, chebyshev=True, lazy=0.5), 2)
    0.24
    >>> round(tolerated_error(bipartite(40).dense(), 4, 0.5, chebyshev=True, lazy=0.5), 2)
    0.31
    """
    return _tolerated(weights.tobytes(), len(weights), rounds, gamma, chebyshev, lazy)


def safe_gamma(weights: Floats, error: float, rounds: int, chebyshev: bool = False, lazy: float = 0.0) -> float:
    """The largest gamma, in steps of 0.05, that tolerates `ERROR_MARGIN` times the error of a codec.

    It is found by halving an interval. With many rounds on a sparse graph (6 or more on a ring of 40), a larger gamma
    may tolerate more than a smaller one; then a still larger one may be safe too. Gamma is at most 1, and at most
    `fastest_gamma` in accelerated rounds where that is above 1.

    Args:
        weights: Pi, symmetric.
        error: relative error of the codec on normal numbers, `codec.relative_error(D)`.
        rounds: rounds of one averaging.
        chebyshev: whether they are accelerated.
        lazy: the algorithm's share of the identity.

    Raises:
        ValueError: if none of them does.
    """
    return _safe_gamma(weights.tobytes(), len(weights), error, rounds, chebyshev, lazy)


@lru_cache(maxsize=256)
def _safe_gamma(Pi: bytes, N: int, error: float, rounds: int, chebyshev: bool, lazy: float) -> float:
    fastest = fastest_gamma(_eigenvalues(_matrix(Pi, N))) if chebyshev else 1.0
    gammas = (*GAMMAS[::-1], *(round(1 + 0.05 * k, 2) for k in range(1, int((fastest - 1) / 0.05) + 1)))

    def safe(at: int) -> bool:
        return _tolerated(Pi, N, rounds, gammas[at], chebyshev, lazy) >= ERROR_MARGIN * error

    low, high = 0, len(gammas) - 1
    if safe(high):
        return gammas[high]
    if safe(low):
        while high - low > 1:  # nearly always, the larger gamma, the less is tolerated
            middle = (low + high) // 2
            low, high = (middle, high) if safe(middle) else (low, middle)
        return gammas[low]
    best = _tolerated(Pi, N, rounds, gammas[low], chebyshev, lazy)
    raise ValueError(
        f"no step size of the gossip is safe: a codec whose error is at most {best / ERROR_MARGIN:.2g} of what it "
        f"encodes is needed; found {error:.2g}. Take a finer codec, such as one of more bits, or set gamma yourself."
    )


@lru_cache(maxsize=4096)
def _tolerated(Pi: bytes, N: int, rounds: int, gamma: float, chebyshev: bool, lazy: float) -> float:
    W = _matrix(Pi, N)
    weights = list(islice(omegas(rate_with(_eigenvalues(W), gamma), chebyshev), rounds))
    radius = _radius_by_agent if N <= MOST_AGENTS else _radius
    return float(1 / max(*(radius(W, weights, gamma, lazy, corrected) for corrected in (0, 1)), 1.0))


def _radius_by_agent(W: Floats, weights: Sequence[float], gamma: float, lazy: float, corrected: int) -> float:
    """Spectral radius of H."""
    N, R = len(W), len(weights)
    step_NN, eye = gamma * (W - np.eye(N)), np.eye(N)
    H = np.zeros((R, N, R * N))
    x = before = hat = np.zeros((N, R * N))  # column (s, j): the response to an error of agent j in round s
    for step in range(RESPONSE_STEPS):
        start, before = x + corrected * (x - before), x
        z = z_before = start
        for r, omega in enumerate(weights):
            H[r] += (z - hat) ** 2
            hat = z.copy()
            if step == 0:
                hat[:, r * N : (r + 1) * N] += eye
            z, z_before = omega * (z + step_NN @ hat - z_before) + z_before, z
        x = lazy * start + (1 - lazy) * z
        if step and max(np.abs(x - before).max(), np.abs(x - x.mean(axis=0)).max()) < NOTHING:
            break
    return float(np.abs(np.linalg.eigvals(H.reshape(R * N, R * N))).max())


def _radius(W: Floats, weights: Sequence[float], gamma: float, lazy: float, corrected: int) -> float:
    """Spectral radius of H averaged over agents, by the eigenvalues m of Pi - I."""
    m, rounds = np.array(_eigenvalues(W)) - 1, len(weights)
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


def _matrix(Pi: bytes, N: int) -> Floats:
    return np.frombuffer(Pi).reshape(N, N)


def _eigenvalues(W: Floats) -> tuple[float, ...]:
    return tuple(np.linalg.eigvalsh(W).tolist())
