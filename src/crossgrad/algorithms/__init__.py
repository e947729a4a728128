"""The update rules, each a frozen dataclass with `init` and `step`, written once for any number of processes.

>>> from crossgrad.algorithms import ALGORITHMS
>>> ALGORITHMS["dpmsgd"](momentum=0.9)
DPMSGD(momentum=0.9, nesterov=False)
"""

from collections.abc import Callable
from typing import Any

from crossgrad._registry.entries import as_class
from crossgrad._registry.registry import Registry
from crossgrad.algorithms.adaptive import GTAdam, QGAdam
from crossgrad.algorithms.aggregation import AGGREGATIONS, RELEASED, Aggregation, Mean, Projection
from crossgrad.algorithms.api import Algorithm, Needs
from crossgrad.algorithms.cga import CGA, comp_cga, released_cga, released_comp_cga
from crossgrad.algorithms.compressed import CHOCO, AdaGossip
from crossgrad.algorithms.compressed_tracking import BEER, MoTEF
from crossgrad.algorithms.decentlam import DecentLaM
from crossgrad.algorithms.diffusion import D2, EDM, exact_diffusion
from crossgrad.algorithms.gossip import DPMSGD, DPSGD
from crossgrad.algorithms.gossip_rounds import Gossip
from crossgrad.algorithms.gut import GUT
from crossgrad.algorithms.local import KGT, LED
from crossgrad.algorithms.momentum_tracking import MomentumTracking
from crossgrad.algorithms.ngc import NGC, comp_ngc
from crossgrad.algorithms.quasi_global import QGDSGDm
from crossgrad.algorithms.relay import RelaySGD
from crossgrad.algorithms.rules import RULES, OptimRule
from crossgrad.algorithms.sgp import SGP
from crossgrad.algorithms.swarm import SwarmSGD
from crossgrad.algorithms.torch_optim import TorchOptim
from crossgrad.algorithms.tracking import GradientTracking


def mean_cga(momentum: float = 0.98) -> CGA:
    """CGA with the plain mean of own and cross-gradients in place of the projection.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.

    Reference:
        Esfandiari, Tan, Jiang, Balu, Herron, Hegde, Sarkar: Cross-Gradient Aggregation for Decentralized Learning from
        Non-IID Data. ICML 2021, arXiv:2103.02051.

    Five agents with one class each, and the worst agent's accuracy on all classes:

    >>> import torch
    >>> import crossgrad as cg
    >>> _ = torch.manual_seed(0)  # of the first weights
    >>> labels = torch.arange(200) % 5
    >>> data = (torch.eye(5)[labels], labels)
    >>> model, method = torch.nn.Linear(5, 5), cg.mean_cga(momentum=0.5)
    >>> options = {"partition": "class", "test": data, "lr": 0.5, "steps": 20}
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=method, **options)
    >>> min(result.records[-1].agent_accuracy), result.records[-1].bytes_by_kind
    (1.0, {'gradient': 24000, 'model': 24000})
    """
    return CGA(momentum=momentum, aggregate=Mean())


_BUILT_IN: dict[str, Callable[..., Any]] = {
    "dpsgd": DPSGD,
    "dpmsgd": DPMSGD,
    "sgp": SGP,
    "swarm": SwarmSGD,
    "cga": CGA,
    "compcga": comp_cga,
    "cga-released": released_cga,
    "compcga-released": released_comp_cga,
    "cga-mean": mean_cga,
    "ngc": NGC,
    "compngc": comp_ngc,
    "qg-dsgdm": QGDSGDm,
    "gradient-tracking": GradientTracking,
    "edm": EDM,
    "d2": D2,
    "exact-diffusion": exact_diffusion,
    "momentum-tracking": MomentumTracking,
    "decentlam": DecentLaM,
    "gut": GUT,
    "kgt": KGT,
    "led": LED,
    "torch-optim": TorchOptim,
    "qg-adam": QGAdam,
    "gtadam": GTAdam,
    "choco": CHOCO,
    "adagossip": AdaGossip,
    "beer": BEER,
    "motef": MoTEF,
    "relaysgd": RelaySGD,
}

ALGORITHMS: Registry[Callable[..., Any]] = Registry(
    "algorithm", _BUILT_IN, lambda name, thing: as_class("algorithm", name, thing, ("init", "step", "needs"))
)

FAMILIES: dict[str, tuple[str, ...]] = {
    "gossip": ("dpsgd", "dpmsgd", "torch-optim", "decentlam", "qg-dsgdm", "qg-adam"),
    "directed graphs and random pairs": ("sgp", "swarm"),
    "cross-gradients": ("cga", "compcga", "cga-released", "compcga-released", "cga-mean", "ngc", "compngc"),
    "corrected for non-IID data, one message": ("edm", "d2", "exact-diffusion", "gut", "led", "relaysgd"),
    "corrected for non-IID data, two messages": ("gradient-tracking", "momentum-tracking", "gtadam", "kgt"),
    "compressed messages": ("choco", "adagossip", "beer", "motef"),
}

__all__ = [
    "AGGREGATIONS",
    "ALGORITHMS",
    "BEER",
    "CGA",
    "CHOCO",
    "D2",
    "DPMSGD",
    "DPSGD",
    "EDM",
    "FAMILIES",
    "GUT",
    "KGT",
    "LED",
    "NGC",
    "RELEASED",
    "RULES",
    "SGP",
    "AdaGossip",
    "Aggregation",
    "Algorithm",
    "DecentLaM",
    "GTAdam",
    "Gossip",
    "GradientTracking",
    "Mean",
    "MoTEF",
    "MomentumTracking",
    "Needs",
    "OptimRule",
    "Projection",
    "QGAdam",
    "QGDSGDm",
    "RelaySGD",
    "SwarmSGD",
    "TorchOptim",
    "comp_cga",
    "comp_ngc",
    "exact_diffusion",
    "mean_cga",
    "released_cga",
    "released_comp_cga",
]
