"""The quadratic programme of CGA, solved for many agents at once from Gram matrices alone.

B: problems, K: constraints (rows of G).
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPS = np.finfo(np.float64).eps
TINY = 1e-145  # a row below it is taken as zero: its square has lost its digits
TOLERANCE = 1e-8  # of the conditions of optimality, where rows have length 1 and the largest entry of c is 1
BLUR = 1e-6
QUIET = 1e-11  # what the search takes for zero, in the same units
RIDGE = 1e-12
ROUNDS = 3  # Newton steps of full length after which a set of free rows counts as solved


def solve(gram: Array, cross: Array, lower: float = 0.0, ridge: float = 0.0) -> tuple[Array, NDArray[np.bool_]]:
    """Solve the dual `min 1/2 u'Ku + c'u, u >= lower` for a batch, and say which problems were solved.

    `gram` (B, K, K) holds K = GG', `cross` (B, K) holds c = Gg; then z = g + G'u. The paper's equation (5) is
    lower = 0, where z is the point of {G z >= 0} nearest to g. `ridge` is added to the diagonal as it is.

    What is promised is z, not u: where rows depend on one another, many u give the same z. Solved means
    (G z)_l >= -1e-8 |G_l| |g|, with equality up to as much where u_l > lower, whatever the scale of each row. Rows
    that are parallel or opposed to within about 1e-7 cannot be told apart by a Gram matrix in double precision; for
    these the bound is some 1e-7, and z is that of gradients perturbed by as much. Unsolved (non-finite, not a Gram
    matrix, or given up) means u = 0, so z = g. A row of zeros constrains nothing and has u = lower.

    >>> g, G = np.array([1.0, 0.0]), np.array([[-1.0, 1.0], [0.5, 1.0]])
    >>> u, solved = solve((G @ G.T)[None], (G @ g)[None])
    >>> (g + u[0] @ G).tolist(), solved.tolist()
    ([0.5, 0.5], [True])
    """
    size = cross.shape[1]
    if ridge:
        gram = gram + ridge * np.eye(size)
    squares = np.diagonal(gram, axis1=1, axis2=2)
    solved = np.isfinite(gram).all(axis=(1, 2)) & np.isfinite(cross).all(axis=1) & (squares >= 0).all(axis=1)
    u = np.where(solved[:, None], np.full_like(cross, lower), 0.0)
    with np.errstate(all="ignore"):  # what overflows is found unsolved below
        slope = cross + lower * gram.sum(axis=2) if lower else cross
        hard = np.flatnonzero(solved & ~(slope >= 0).all(axis=1))  # the others stay where they are: z = g is feasible
        if hard.size:
            lengths = np.sqrt(squares[hard])
            inverse = np.where(lengths > TINY, 1.0 / lengths, 0.0)
            cosines = gram[hard] * inverse[:, :, None] * inverse[:, None, :]
            slope = slope[hard] * inverse
            scale = np.abs(slope).max(axis=1, keepdims=True)
            s, ok = _descend(np.clip(cosines, -1.0, 1.0), np.where(scale > 0, slope / scale, 0.0))
            u[hard] += s * scale * inverse
            ok &= np.isfinite(u[hard]).all(axis=1) & (np.abs(cosines) < 1 + 1e-6).all(axis=(1, 2))
            solved[hard] = ok
            u[~solved] = 0.0
    return u, solved


def _descend(H_BKK: Array, b_BK: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Minimise 1/2 s'Hs + b's over s >= 0, where H has a unit (or zero) diagonal.

    Lawson and Hanson's active set method on the Gram matrix, with two changes: every row that would enter enters at
    once (those whose first step is backwards leave at once), and all problems take their steps together. The
    objective never rises and no set of free rows returns, so it ends without a rule against cycling. H is often
    singular, so a ridge of a few roundings steadies each Newton step; the gradient stays exact, so the ridge
    slows the last steps where rows are nearly dependent but does not move the solution.
    """
    problems, size = b_BK.shape
    s_BK = np.zeros_like(b_BK)
    live = np.arange(problems)  # the arrays without shapes in their names hold the live problems only
    H, b, s, centre, free = H_BKK, b_BK, s_BK, s_BK, np.zeros(b_BK.shape, dtype=bool)
    settled, rounds = np.ones(problems, dtype=bool), np.ones(problems, dtype=int)
    for _ in range(10 * size + 50):
        slope = _slope(H, b, s) + RIDGE * (s - centre)
        noise = QUIET + 4 * EPS * s.sum(axis=1, keepdims=True)
        enter = ~free & (slope < -noise) & settled[:, None]
        done = settled & ~enter.any(axis=1)
        if done.any():
            again = done & (rounds < ROUNDS) & (RIDGE * np.abs(s - centre) > noise).any(axis=1)
            slope = np.where(again[:, None], slope - RIDGE * (s - centre), slope)
            centre = np.where(again[:, None], s, centre)
            rounds = rounds + again
            going = ~done | again
            s_BK[live] = s
            live, s, free = live[going], s[going], free[going]
            if not live.size:
                break
            H, b, centre, slope, enter, noise, rounds = (
                H[going],
                b[going],
                centre[going],
                slope[going],
                enter[going],
                noise[going],
                rounds[going],
            )
        free = free | enter
        step = _newton(H, np.where(free & (np.abs(slope) > noise), -slope, 0.0), free)
        room = np.where(step < 0, s / -step, np.inf)
        length = np.minimum(room.min(axis=1, keepdims=True), 1.0)
        settled = length[:, 0] >= 1
        leave = (room <= length) & ~settled[:, None]
        s = np.where(leave, 0.0, s + length * step)
        free = free & ~leave
    s_BK[live] = s
    slope_BK = _slope(H_BKK, b_BK, s_BK)
    slack_BK = np.where(s_BK > 0, -np.abs(slope_BK), slope_BK)
    blur = np.minimum(RIDGE * s_BK.sum(axis=1, keepdims=True), BLUR)
    return s_BK, (slack_BK >= -TOLERANCE - blur).all(axis=1)


def _slope(H_BKK: Array, b_BK: Array, s_BK: Array) -> Array:
    return (H_BKK @ s_BK[:, :, None])[:, :, 0] + b_BK


def _newton(H_BKK: Array, target_BK: Array, free_BK: NDArray[np.bool_]) -> Array:
    """The step that brings the slope of the free rows to zero and leaves the other rows alone."""
    system = np.where(free_BK[:, :, None] & free_BK[:, None, :], H_BKK, 0.0)
    rows = np.arange(H_BKK.shape[1])
    system[:, rows, rows] = 1.0 + RIDGE
    try:
        return np.linalg.solve(system, target_BK[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:  # one singular matrix fails the whole batch: no Gram matrix, or a freak of rounding
        return (np.linalg.pinv(system, hermitian=True) @ target_BK[:, :, None])[:, :, 0]
