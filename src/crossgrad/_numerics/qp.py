"""The quadratic programme of CGA, solved for many agents at once from Gram matrices alone.

B: problems, K: constraints (rows of G).
"""

import numpy as np
from numpy.typing import NDArray

from crossgrad._numerics.arrays import Floats

Mask = NDArray[np.bool_]

# In units where every row of G has length 1 and the largest |c_l| is 1:
RIDGE = 1e-12  # well above a Gram matrix's rounding: 1e-14 to 1e-13 for millions of parameters
MAX_PROXIMAL_ROUNDS = 3  # each divides the ridge's share in the solution by (eigenvalue / RIDGE)
ZERO_SLOPE = 1e-11  # a slope that the search takes for zero
MAX_SLOPE = 1e-8  # a slope that the solution may have where it should be zero,
MAX_RIDGE_SLOPE = 0.1  # and the most by which the ridge may raise that; beyond it, g itself is as good

RELATIVE_ROUNDING = 4 * float(np.finfo(np.float64).eps)
MIN_ROW_LENGTH = 1e-145  # a shorter row is taken as zero: its square has lost its digits


def solve(gram: Floats, cross: Floats, lower: float = 0.0) -> tuple[Floats, Mask]:
    """Solve the dual `min 1/2 u'Ku + c'u, u >= lower` for a batch, and say which problems were solved.

    `gram` (B, K, K) holds K = GG', `cross` (B, K) holds c = Gg; then z = g + G'u. The paper's equation (5) is
    lower = 0, where z is the point of {G z >= 0} nearest to g.

    What is promised is z, not u: where rows depend on one another, many u give the same z. With lower = 0,
    |z| <= |g| and (G z)_l >= -1e-8 |G_l| |g|, with equality up to as much where u_l > 0, however the lengths
    of the rows differ. Where rows are nearly opposed, or a sum of rows with factors >= 0 nearly cancels (to
    1e-3 of its terms, but not to zero), they leave so thin a cone that a Gram matrix in double precision
    hardly shows it: for these 1e-8 becomes 1e-6. A row of zeros constrains nothing: u_l = lower.

    A problem that is not solved (its input is not finite or contradictory, or the search was given up) has u = 0, so
    z = g. The others of the batch are not affected.

    >>> g, G = np.array([1.0, 0.0]), np.array([[-1.0, 1.0], [0.5, 1.0]])
    >>> u, solved = solve((G @ G.T)[None], (G @ g)[None])
    >>> (g + u[0] @ G).round(9).tolist(), solved.tolist()
    ([0.5, 0.5], [True])
    """
    squares = np.diagonal(gram, axis1=1, axis2=2)
    finite: Mask = np.all(np.isfinite(gram), axis=(1, 2)) & np.all(np.isfinite(cross), axis=1)
    solved: Mask = finite & np.all(squares >= 0, axis=1)
    u = np.where(solved[:, None], np.full_like(cross, lower), 0.0)
    with np.errstate(all="ignore"):  # what overflows ends as not solved
        slope = cross + lower * gram.sum(axis=2) if lower else cross
        hard = np.flatnonzero(solved & ~np.all(slope >= 0, axis=1))
        if hard.size:
            lengths = np.sqrt(squares[hard])
            inverse = np.where(lengths > MIN_ROW_LENGTH, 1.0 / lengths, 0.0)
            cosines = gram[hard] * inverse[:, :, None] * inverse[:, None, :]
            slope = slope[hard] * inverse
            scale = np.abs(slope).max(axis=1, keepdims=True)
            s, ok = _solve_scaled(np.clip(cosines, -1.0, 1.0), np.where(scale > 0, slope / scale, 0.0))
            u[hard] += s * scale * inverse
            possible = np.all(np.abs(cosines) < 1 + 1e-6, axis=(1, 2))
            solved[hard] = ok & possible & np.all(np.isfinite(u[hard]), axis=1)
            u[~solved] = 0.0
    return u, solved


def _solve_scaled(H_BKK: Floats, b_BK: Floats) -> tuple[Floats, Mask]:
    """Minimise 1/2 s'Hs + b's over s >= 0 by the proximal point method, and check that it is optimal.

    H is often singular, and rounding may have made it slightly indefinite. A ridge around the last round's
    answer cures both, and fades where H is regular: mostly the first round is the last.
    """
    rows = np.arange(b_BK.shape[1])
    H_BKK[:, rows, rows] = 1.0 + RIDGE
    s_BK = np.zeros_like(b_BK)
    rest = np.arange(len(b_BK))
    for _ in range(MAX_PROXIMAL_ROUNDS):
        centre = s_BK[rest]
        s = _active_set(H_BKK[rest], b_BK[rest] - RIDGE * centre, centre)
        s_BK[rest] = s
        rest = rest[np.any(RIDGE * np.abs(s - centre) > _quiet(s), axis=1)]
        if not rest.size:
            break
    slope_BK = _slope(H_BKK, b_BK, s_BK) - RIDGE * s_BK
    excess_BK = np.where(s_BK > 0, np.abs(slope_BK), -slope_BK)
    allowed = MAX_SLOPE + np.minimum(MAX_RIDGE_SLOPE, RIDGE * s_BK.sum(axis=1, keepdims=True))
    return s_BK, np.less_equal(excess_BK, allowed).all(axis=1)


def _active_set(H: Floats, b: Floats, s: Floats) -> Floats:
    """Minimise 1/2 s'Hs + b's over s >= 0, starting from s, where H is positive definite.

    Lawson and Hanson's method on the normal equations, but all rows that want to enter do so at once (those
    whose first step would be backwards leave again at once), and all problems take each step together. The
    objective falls from one settled set of free rows to the next: none returns, so nothing cycles.
    """
    answer = s.copy()
    live = np.arange(len(b))
    free: Mask = s > 0
    for _ in range(10 * b.shape[1] + 50):
        slope = _slope(H, b, s)
        loud = np.abs(slope) > _quiet(s)
        settled = ~np.any(free & loud, axis=1, keepdims=True)
        free = free | (settled & loud & (slope < 0))
        going = np.any(free & loud, axis=1)
        if not going.all():
            answer[live] = s
            live, H, b, s = live[going], H[going], b[going], s[going]
            slope, loud, free = slope[going], loud[going], free[going]
            if not live.size:
                break
        # Without the quiet slopes, whose noise could turn a lone entering row back for ever.
        step = _newton(H, np.where(free & loud, -slope, 0.0), free)
        room = np.where(step < 0, s / -step, np.inf)
        length = np.minimum(room.min(axis=1, keepdims=True), 1.0)
        leave = room <= length
        s = np.where(leave, 0.0, s + length * step)
        free = free & ~leave
    answer[live] = s
    return answer


def _newton(H: Floats, target: Floats, free: Mask) -> Floats:
    """The step of the free rows that changes their slopes by `target`; the others stay."""
    rows = np.arange(H.shape[1])
    system = np.where(free[:, :, None] & free[:, None, :], H, 0.0)
    system[:, rows, rows] = H[:, rows, rows]
    try:
        step = np.linalg.solve(system, target[:, :, None])
    except np.linalg.LinAlgError:  # one false Gram matrix fails the whole batch
        step = np.linalg.pinv(system, hermitian=True) @ target[:, :, None]
    return step[:, :, 0].astype(np.float64, copy=False)


def _slope(H: Floats, b: Floats, s: Floats) -> Floats:
    return (H @ s[:, :, None])[:, :, 0] + b


def _quiet(s: Floats) -> Floats:
    total: Floats = s.sum(axis=1, keepdims=True)
    return ZERO_SLOPE + RELATIVE_ROUNDING * total
