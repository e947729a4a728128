"""The update rules, each a frozen dataclass with `init` and `step`, written once for any number of processes.

>>> from crossgrad.algorithms import ALGORITHMS
>>> ALGORITHMS["dpmsgd"](momentum=0.9)
DPMSGD(momentum=0.9, nesterov=False)
"""

from collections.abc import Callable
from typing import Any

from crossgrad.algorithms.aggregation import AGGREGATIONS, RELEASED, Mean, Projection
from crossgrad.algorithms.api import Algorithm, Needs
from crossgrad.algorithms.cga import CGA, comp_cga, released_cga, released_comp_cga
from crossgrad.algorithms.diffusion import EDM
from crossgrad.algorithms.gossip import DPMSGD, DPSGD
from crossgrad.algorithms.quasi_global import QGDSGDm
from crossgrad.algorithms.sgp import SGP
from crossgrad.algorithms.swarm import SwarmSGD
from crossgrad.algorithms.tracking import GradientTracking


def mean_cga(momentum: float = 0.98) -> CGA:
    """CGA with the plain mean of own and cross-gradients in place of the projection."""
    return CGA(momentum=momentum, aggregate=Mean())


ALGORITHMS: dict[str, Callable[..., Any]] = {
    "dpsgd": DPSGD,
    "dpmsgd": DPMSGD,
    "sgp": SGP,
    "swarm": SwarmSGD,
    "cga": CGA,
    "compcga": comp_cga,
    "cga-released": released_cga,
    "compcga-released": released_comp_cga,
    "cga-mean": mean_cga,
    "qg-dsgdm": QGDSGDm,
    "gradient-tracking": GradientTracking,
    "edm": EDM,
}

__all__ = [
    "AGGREGATIONS",
    "ALGORITHMS",
    "CGA",
    "DPMSGD",
    "DPSGD",
    "EDM",
    "RELEASED",
    "SGP",
    "Algorithm",
    "GradientTracking",
    "Mean",
    "Needs",
    "Projection",
    "QGDSGDm",
    "SwarmSGD",
    "comp_cga",
    "mean_cga",
    "released_cga",
    "released_comp_cga",
]
