"""The public names, each once: type checkers read this file, and `__init__.py` imports from it what is asked for."""

from . import algorithms as algorithms
from . import codecs as codecs
from . import data as data
from . import experiments as experiments
from . import graphs as graphs
from . import guards as guards
from . import models as models
from . import optim as optim
from . import tasks as tasks
from . import theory as theory
from ._processes.torchrun import (
    process_group as process_group,
)
from ._runs.fit_result import (
    Result as Result,
)
from ._training.kept_models import (
    EarlyStopping as EarlyStopping,
)
from ._training.schedule import (
    Constant as Constant,
)
from ._training.schedule import (
    Cosine as Cosine,
)
from ._training.schedule import (
    Exponential as Exponential,
)
from ._training.schedule import (
    Step as Step,
)
from ._training.schedule import (
    WarmUp as WarmUp,
)
from ._training.settings import (
    TrainingSettings as TrainingSettings,
)
from ._training.torch_schedule import (
    TorchSchedule as TorchSchedule,
)
from ._training.trainer import (
    Training as Training,
)
from .algorithms import (
    BEER as BEER,
)
from .algorithms import (
    CGA as CGA,
)
from .algorithms import (
    CHOCO as CHOCO,
)
from .algorithms import (
    D2 as D2,
)
from .algorithms import (
    DPMSGD as DPMSGD,
)
from .algorithms import (
    DPSGD as DPSGD,
)
from .algorithms import (
    EDM as EDM,
)
from .algorithms import (
    GUT as GUT,
)
from .algorithms import (
    KGT as KGT,
)
from .algorithms import (
    LED as LED,
)
from .algorithms import (
    NGC as NGC,
)
from .algorithms import (
    SGP as SGP,
)
from .algorithms import (
    AdaGossip as AdaGossip,
)
from .algorithms import (
    DecentLaM as DecentLaM,
)
from .algorithms import (
    Gossip as Gossip,
)
from .algorithms import (
    GradientTracking as GradientTracking,
)
from .algorithms import (
    GTAdam as GTAdam,
)
from .algorithms import (
    Mean as Mean,
)
from .algorithms import (
    MomentumTracking as MomentumTracking,
)
from .algorithms import (
    MoTEF as MoTEF,
)
from .algorithms import (
    Projection as Projection,
)
from .algorithms import (
    QGAdam as QGAdam,
)
from .algorithms import (
    QGDSGDm as QGDSGDm,
)
from .algorithms import (
    RelaySGD as RelaySGD,
)
from .algorithms import (
    SwarmSGD as SwarmSGD,
)
from .algorithms import (
    TorchOptim as TorchOptim,
)
from .algorithms import (
    comp_cga as comp_cga,
)
from .algorithms import (
    comp_ngc as comp_ngc,
)
from .algorithms import (
    exact_diffusion as exact_diffusion,
)
from .algorithms import (
    mean_cga as mean_cga,
)
from .algorithms import (
    released_cga as released_cga,
)
from .algorithms import (
    released_comp_cga as released_comp_cga,
)
from .codecs import (
    Exact as Exact,
)
from .codecs import (
    Quantised as Quantised,
)
from .codecs import (
    RandomK as RandomK,
)
from .codecs import (
    ScaledSign as ScaledSign,
)
from .codecs import (
    TopK as TopK,
)
from .data import (
    IID as IID,
)
from .data import (
    ByClass as ByClass,
)
from .data import (
    Dirichlet as Dirichlet,
)
from .data import (
    LabelQuantity as LabelQuantity,
)
from .data import (
    Samples as Samples,
)
from .data import (
    Shards as Shards,
)
from .data import (
    load as load,
)
from .federation.own_loop import (
    site as site,
)
from .fitting import (
    fit as fit,
)
from .graphs import (
    Graph as Graph,
)
from .graphs import (
    GraphSequence as GraphSequence,
)
from .graphs import (
    balanced_bipartite as balanced_bipartite,
)
from .graphs import (
    bipartite as bipartite,
)
from .graphs import (
    chain as chain,
)
from .graphs import (
    erdos_renyi as erdos_renyi,
)
from .graphs import (
    exponential as exponential,
)
from .graphs import (
    from_matrix as from_matrix,
)
from .graphs import (
    from_networkx as from_networkx,
)
from .graphs import (
    fully_connected as fully_connected,
)
from .graphs import (
    one_peer_exponential as one_peer_exponential,
)
from .graphs import (
    random_matchings as random_matchings,
)
from .graphs import (
    read_edge_list as read_edge_list,
)
from .graphs import (
    read_weights as read_weights,
)
from .graphs import (
    ring as ring,
)
from .graphs import (
    star as star,
)
from .graphs import (
    torus as torus,
)
from .graphs.faults import (
    Faults as Faults,
)
from .plugins import (
    register as register,
)
from .records.record import (
    Record as Record,
)
from .tasks import (
    Classification as Classification,
)
from .tasks import (
    Metric as Metric,
)
from .tasks import (
    MultiLabel as MultiLabel,
)
from .tasks import (
    OwnTask as OwnTask,
)
from .tasks import (
    Regression as Regression,
)
from .tasks import (
    Segmentation as Segmentation,
)
from .tasks import (
    Task as Task,
)
from .tasks import (
    TokenClassification as TokenClassification,
)

__version__: str
