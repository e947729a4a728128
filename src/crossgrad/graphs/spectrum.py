"""Eigenvalues of averaging weights: how fast repeated averaging brings all agents to the mean.

Up to 1000 agents by dense LAPACK. Above, by Lanczos on the vectors of mean zero, which never
forms an N x N matrix; where that is too slow (a long ring: the gap is of order 1/N^2), by
shift-and-invert at both ends of the spectrum, whose sparse factorisation is cheap on just these graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh, splu

from crossgrad.graphs.validate import Matrix, Sparse, Vector, column_stochastic, row_stochastic, symmetric

MAX_DENSE_AGENTS = 1000  # agents up to which all eigenvalues are computed
MAX_ARPACK_ITERATIONS = 1000  # of ARPACK, for weights that are not symmetric
ZERO_RATE_BELOW = 1e-13  # below this a rate is rounding
EIGENVALUE_SHIFT = 1e-8

Apply = Callable[[Vector], Vector]


def mixing_rate(factors: Sequence[Sparse]) -> float:
    """The factor by which the product of `factors` (the first acts first) reduces disagreement.

    If all are doubly stochastic, the spectral norm of the product minus 11'/N; for one symmetric
    matrix that is max(|l2|, |lN|). Otherwise the second largest modulus of the product's eigenvalues.
    """
    agents = factors[0].shape[0]
    if agents == 1:
        return 0.0
    rate = _dense_rate(factors) if agents <= MAX_DENSE_AGENTS else _sparse_rate(factors)
    return 0.0 if rate < ZERO_RATE_BELOW else rate


def eigenvalues(W: Sparse) -> tuple[float, ...]:
    """All eigenvalues of a symmetric W, from the smallest to the largest.

    Raises:
        ValueError: if W is not symmetric, or there are too many agents for that.
    """
    if not symmetric(W):
        raise ValueError(
            "all eigenvalues are computed for symmetric weights; these are not. Take an undirected graph; where a step "
            "size of compressed gossip is chosen by them, set gossip.gamma, such as 0.5."
        )
    if W.shape[0] > MAX_DENSE_AGENTS:
        raise ValueError(
            f"all eigenvalues are computed for at most {MAX_DENSE_AGENTS} agents; found {W.shape[0]}. Where a step "
            "size of compressed gossip is chosen by them, set gossip.gamma, such as 0.5."
        )
    return tuple(float(eigenvalue) for eigenvalue in np.linalg.eigvalsh(W.toarray()))


def lowest_eigenvalue(W: Sparse) -> float:
    """The smallest eigenvalue of a symmetric W."""
    if W.shape[0] <= MAX_DENSE_AGENTS:
        return float(np.linalg.eigvalsh(W.toarray())[0])
    try:
        lowest = eigsh(W, k=1, which="SA", v0=_start(W.shape[0]), ncv=40, maxiter=200, return_eigenvectors=False)
    except ArpackNoConvergence:
        lowest = eigsh(W, k=1, sigma=-1 - EIGENVALUE_SHIFT, v0=_start(W.shape[0]), return_eigenvectors=False)
    return float(lowest[0])


def _dense_rate(factors: Sequence[Sparse]) -> float:
    W: Matrix = factors[0].toarray()
    for factor in factors[1:]:
        W = np.asarray(factor @ W)
    if symmetric(W):
        return float(np.abs(np.linalg.eigvalsh(W - 1 / len(W))).max())
    if row_stochastic(W) and column_stochastic(W):
        return float(np.linalg.norm(W - 1 / len(W), 2))
    eigenvalues = np.linalg.eigvals(W)
    return float(np.abs(np.delete(eigenvalues, np.abs(eigenvalues - 1).argmin())).max())


def _sparse_rate(factors: Sequence[Sparse]) -> float:
    agents = factors[0].shape[0]
    if len(factors) == 1 and symmetric(factors[0]):
        return _symmetric_rate(factors[0])
    if all(row_stochastic(W) and column_stochastic(W) for W in factors):
        if len(factors) == 1:
            return float(np.sqrt(_symmetric_rate(csr_array(factors[0].T @ factors[0]))))
        there_and_back = [*factors, *(csr_array(W.T) for W in reversed(factors))]
        squared = _lanczos(_chain(there_and_back), agents)
        if squared is None:
            raise ValueError(_slow(agents))
        return float(np.sqrt(squared))
    if not all(column_stochastic(W) for W in factors):
        factors = [csr_array(W.T) for W in reversed(factors)]
    # 1'W = 1', so W maps vectors of mean zero to such, and there it has all its other eigenvalues.
    try:
        operator = LinearOperator((agents, agents), matvec=_chain(factors), dtype=np.float64)
        # Several eigenvalues from a wide space: asked for two, ARPACK settles on the wrong one of two pairs whose
        # moduli agree to 1e-4.
        k, ncv = min(6, agents - 2), min(40, agents)
        found = eigs(
            operator, k=k, ncv=ncv, v0=_start(agents), maxiter=MAX_ARPACK_ITERATIONS, return_eigenvectors=False
        )
    except ArpackNoConvergence as failure:
        raise ValueError(_slow(agents)) from failure
    return float(np.abs(found).max())


def _symmetric_rate(W: Sparse) -> float:
    rate = _lanczos(_chain([W]), W.shape[0])
    if rate is not None:
        return rate
    second = _nearest(W, 1 + EIGENVALUE_SHIFT)
    lowest = 2 * W.diagonal().min() - 1  # by Gershgorin: own weights leave little room near -1
    return second if -lowest <= second else max(second, -_nearest(W, -1 - EIGENVALUE_SHIFT))


def _lanczos(apply: Apply, agents: int) -> float | None:
    """Largest modulus among the eigenvalues of a symmetric operator; None if it takes too long."""
    if np.linalg.norm(apply(_start(agents))) < ZERO_RATE_BELOW:  # ARPACK refuses the zero operator
        return 0.0
    operator = LinearOperator((agents, agents), matvec=apply, dtype=np.float64)
    try:
        top = eigsh(operator, k=1, v0=_start(agents), ncv=40, maxiter=50, return_eigenvectors=False)
    except ArpackNoConvergence:
        return None
    return float(np.abs(top[0]))


def _nearest(W: Sparse, shift: float) -> float:
    """The eigenvalue of a symmetric W, on the vectors of mean zero, that is nearest to `shift`."""
    agents = W.shape[0]
    shifted = csc_array(W - diags_array(np.full(agents, shift)))
    solve = splu(shifted, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).solve

    def invert(x: Vector) -> Vector:
        return _centred(solve(_centred(x)))

    operator = LinearOperator((agents, agents), matvec=invert, dtype=np.float64)
    inverse = eigsh(operator, k=1, v0=_start(agents), return_eigenvectors=False)
    return float(shift + 1 / inverse[0])


def _chain(factors: Sequence[Sparse]) -> Apply:
    def apply(x: Vector) -> Vector:
        x = _centred(x)
        for W in factors:
            x = np.asarray(W @ x)
        return _centred(x)

    return apply


def _centred(x: Vector) -> Vector:
    x = np.ravel(x)
    centred: Vector = x - x.mean()
    return centred


def _start(agents: int) -> Vector:
    x = _centred(np.random.default_rng(0).standard_normal(agents))
    unit: Vector = x / np.linalg.norm(x)
    return unit


def _slow(agents: int) -> str:
    return (
        f"The mixing rate of this graph of {agents:,} agents is so near to one that ARPACK does not find it; "
        f"ask for it with at most {MAX_DENSE_AGENTS:,} agents."
    )
