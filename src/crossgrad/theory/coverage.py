"""Which algorithms the theorem covers: x <- Pi x + v with v <- beta v - alpha g~, for any directions g~."""

from dataclasses import dataclass
from typing import Any

from crossgrad.algorithms import CGA, DPMSGD, DPSGD, Algorithm, Projection
from crossgrad.codecs.codec import Exact


@dataclass(frozen=True)
class Coverage:
    """Whether the theorem covers an algorithm, with which beta, and why.

    Args:
        covered: whether the theorem applies to this algorithm.
        momentum: beta; without meaning where the theorem does not apply.
        sentence: why, or why not.
    """

    covered: bool
    momentum: float  # beta; of no meaning where the theorem is silent
    sentence: str


def coverage(algorithm: Algorithm[Any]) -> Coverage:
    """Whether the theorem covers this algorithm.

    Args:
        algorithm: the update rule.

    >>> coverage(DPSGD()).covered, coverage(DPMSGD(nesterov=True)).covered
    (True, False)
    """
    name = type(algorithm).__name__
    if isinstance(algorithm, DPSGD):
        return Coverage(True, 0.0, "DPSGD is the theorem's update with beta = 0 and epsilon = 0.")
    if not isinstance(algorithm, CGA | DPMSGD):
        return Coverage(
            False,
            0.0,
            f"The theorem does not cover {name}: it is about x <- Pi x + v with v <- beta v - alpha g~ (CGA, "
            f"DPMSGD, DPSGD). What follows is true of the graph and the losses, not of {name}.",
        )
    if algorithm.nesterov:
        return Coverage(
            False,
            algorithm.momentum,
            f"The theorem does not cover {name} with Nesterov's momentum, as the released code has it: it is about "
            "the heavy ball v <- beta v - alpha g~.",
        )
    if isinstance(algorithm, DPMSGD):
        return Coverage(True, algorithm.momentum, "DPMSGD is the theorem's update with epsilon = 0.")
    return Coverage(True, algorithm.momentum, _of_cga(algorithm))


def _of_cga(algorithm: CGA) -> str:
    exact = Exact()
    if algorithm.codec != exact or algorithm.own_codec not in (None, exact):
        return (
            "The paper only supposes that its theorem holds for compressed gradients too; the proof does not ask where "
            "g~ comes from, so it holds with the epsilon of this run, compression included."
        )
    if algorithm.aggregate != Projection():
        return "The proof does not ask where g~ comes from, so it holds for this way to aggregate, with its epsilon."
    return "The theorem speaks of this algorithm: it is the paper's CGA."
