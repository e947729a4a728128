"""Decentralised deep learning for PyTorch: agents with data of their own learn one model over a graph.

Names are imported when they are first used, so that `import crossgrad` itself costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from crossgrad._processes.torchrun import process_group as process_group
    from crossgrad._runs.fit_result import Result as Result
    from crossgrad._training.kept_models import EarlyStopping as EarlyStopping
    from crossgrad._training.schedule import Constant as Constant
    from crossgrad._training.schedule import Cosine as Cosine
    from crossgrad._training.schedule import Exponential as Exponential
    from crossgrad._training.schedule import Step as Step
    from crossgrad._training.schedule import WarmUp as WarmUp
    from crossgrad._training.settings import TrainingSettings as TrainingSettings
    from crossgrad._training.torch_schedule import TorchSchedule as TorchSchedule
    from crossgrad._training.trainer import Training as Training
    from crossgrad.algorithms import BEER as BEER
    from crossgrad.algorithms import CGA as CGA
    from crossgrad.algorithms import CHOCO as CHOCO
    from crossgrad.algorithms import D2 as D2
    from crossgrad.algorithms import DPMSGD as DPMSGD
    from crossgrad.algorithms import DPSGD as DPSGD
    from crossgrad.algorithms import EDM as EDM
    from crossgrad.algorithms import GUT as GUT
    from crossgrad.algorithms import KGT as KGT
    from crossgrad.algorithms import LED as LED
    from crossgrad.algorithms import NGC as NGC
    from crossgrad.algorithms import SGP as SGP
    from crossgrad.algorithms import AdaGossip as AdaGossip
    from crossgrad.algorithms import DecentLaM as DecentLaM
    from crossgrad.algorithms import Gossip as Gossip
    from crossgrad.algorithms import GradientTracking as GradientTracking
    from crossgrad.algorithms import GTAdam as GTAdam
    from crossgrad.algorithms import Mean as Mean
    from crossgrad.algorithms import MomentumTracking as MomentumTracking
    from crossgrad.algorithms import MoTEF as MoTEF
    from crossgrad.algorithms import Projection as Projection
    from crossgrad.algorithms import QGAdam as QGAdam
    from crossgrad.algorithms import QGDSGDm as QGDSGDm
    from crossgrad.algorithms import RelaySGD as RelaySGD
    from crossgrad.algorithms import SwarmSGD as SwarmSGD
    from crossgrad.algorithms import TorchOptim as TorchOptim
    from crossgrad.algorithms import comp_cga as comp_cga
    from crossgrad.algorithms import comp_ngc as comp_ngc
    from crossgrad.algorithms import exact_diffusion as exact_diffusion
    from crossgrad.algorithms import mean_cga as mean_cga
    from crossgrad.algorithms import released_cga as released_cga
    from crossgrad.algorithms import released_comp_cga as released_comp_cga
    from crossgrad.codecs import Exact as Exact
    from crossgrad.codecs import Quantised as Quantised
    from crossgrad.codecs import RandomK as RandomK
    from crossgrad.codecs import ScaledSign as ScaledSign
    from crossgrad.codecs import TopK as TopK
    from crossgrad.data import IID as IID
    from crossgrad.data import ByClass as ByClass
    from crossgrad.data import Dirichlet as Dirichlet
    from crossgrad.data import LabelQuantity as LabelQuantity
    from crossgrad.data import Samples as Samples
    from crossgrad.data import Shards as Shards
    from crossgrad.data import load as load
    from crossgrad.fitting import fit as fit
    from crossgrad.graphs import Graph as Graph
    from crossgrad.graphs import GraphSequence as GraphSequence
    from crossgrad.graphs import balanced_bipartite as balanced_bipartite
    from crossgrad.graphs import bipartite as bipartite
    from crossgrad.graphs import chain as chain
    from crossgrad.graphs import erdos_renyi as erdos_renyi
    from crossgrad.graphs import exponential as exponential
    from crossgrad.graphs import from_matrix as from_matrix
    from crossgrad.graphs import from_networkx as from_networkx
    from crossgrad.graphs import fully_connected as fully_connected
    from crossgrad.graphs import one_peer_exponential as one_peer_exponential
    from crossgrad.graphs import random_matchings as random_matchings
    from crossgrad.graphs import read_edge_list as read_edge_list
    from crossgrad.graphs import read_weights as read_weights
    from crossgrad.graphs import ring as ring
    from crossgrad.graphs import star as star
    from crossgrad.graphs import torus as torus
    from crossgrad.graphs.faults import Faults as Faults
    from crossgrad.records.record import Record as Record
    from crossgrad.tasks import Classification as Classification
    from crossgrad.tasks import Metric as Metric
    from crossgrad.tasks import MultiLabel as MultiLabel
    from crossgrad.tasks import OwnTask as OwnTask
    from crossgrad.tasks import Regression as Regression
    from crossgrad.tasks import Segmentation as Segmentation
    from crossgrad.tasks import Task as Task
    from crossgrad.tasks import TokenClassification as TokenClassification

_HOME = {
    "crossgrad.algorithms": (
        "AdaGossip BEER CGA CHOCO D2 DPMSGD DPSGD DecentLaM EDM GTAdam GUT Gossip GradientTracking KGT LED Mean "
        "MoTEF MomentumTracking NGC Projection QGAdam QGDSGDm RelaySGD SGP SwarmSGD TorchOptim comp_cga comp_ngc "
        "exact_diffusion mean_cga released_cga released_comp_cga"
    ),
    "crossgrad.codecs": "Exact Quantised RandomK ScaledSign TopK",
    "crossgrad.data": "IID ByClass Dirichlet LabelQuantity Samples Shards load",
    "crossgrad.graphs.faults": "Faults",
    "crossgrad._runs.fit_result": "Result",
    "crossgrad.fitting": "fit",
    "crossgrad.graphs": (
        "Graph GraphSequence balanced_bipartite bipartite chain erdos_renyi exponential from_matrix from_networkx "
        "fully_connected one_peer_exponential random_matchings read_edge_list read_weights ring star torus"
    ),
    "crossgrad._processes.torchrun": "process_group",
    "crossgrad.records.record": "Record",
    "crossgrad.tasks": "Classification Metric MultiLabel OwnTask Regression Segmentation Task TokenClassification",
    "crossgrad._training.kept_models": "EarlyStopping",
    "crossgrad._training.schedule": "Constant Cosine Exponential Step WarmUp",
    "crossgrad._training.torch_schedule": "TorchSchedule",
    "crossgrad._training.settings": "TrainingSettings",
    "crossgrad._training.trainer": "Training",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}
__all__ = sorted([*_MODULE_OF, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "optim":
        return import_module("crossgrad.optim")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'crossgrad' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
