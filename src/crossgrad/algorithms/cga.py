"""Cross-Gradient Aggregation, the paper's Algorithms 1 and 2."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.aggregation import COUNTED, DIAGNOSTICS, RELEASED, Aggregation, Projection
from crossgrad.algorithms.api import CrossGradient, Diagnostic, Needs, Network
from crossgrad.algorithms.steps import check_momentum, move_
from crossgrad.codecs.codec import Codec, Exact, ScaledSign, send


class CGAState(NamedTuple):
    """Models and velocities, error memories, and how the last projection went."""

    x: Tensor
    v: Tensor
    own_memory: Tensor  # of the own gradient (empty without feedback)
    memory: Tensor  # of the cross-gradients for each neighbour, kept by the sender (empty without feedback)
    diagnostics: Tensor  # one column for each of DIAGNOSTICS


@dataclass(frozen=True)
class CGA:
    """Cross-gradient aggregation: a step along which, to first order, no neighbour's loss rises.

    Rule:
        g^j and, from every neighbour l, the gradient g^{jl} of its loss at x^j
        g~^j = the direction nearest to g^j with <g~^j, g^{jl}> >= 0 for all l, by a QP
        v <- beta v - lr g~,  x <- W x + v

    With the defaults this is the paper's Algorithm 1. With `codec=ScaledSign()` it is Algorithm 2 (CompCGA): see
    `comp_cga`. The authors' released code does something else: see `released_cga` and `released_comp_cga`.

    Reference:
        Esfandiari, Tan, Jiang, Balu, Herron, Hegde, Sarkar: Cross-Gradient Aggregation for Decentralized Learning from
        Non-IID Data. ICML 2021, arXiv:2103.02051.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.
        nesterov: whether to take Nesterov's form of the momentum, as the released code does.
        aggregate: how own and cross-gradients are combined: Projection or Mean.
        codec: how cross-gradients are encoded.
        own_codec: the codec that the own gradient is encoded and decoded with, although it is not sent; None: `codec`.

    Five agents with one class each. Models and cross-gradients are sent, and at the end every agent's own model knows
    all classes:

    >>> import torch
    >>> import crossgrad as cg
    >>> _ = torch.manual_seed(0)  # of the first weights
    >>> labels = torch.arange(200) % 5
    >>> data = (torch.eye(5)[labels], labels)
    >>> model, method = torch.nn.Linear(5, 5), cg.CGA(momentum=0.5)
    >>> options = {"partition": "class", "test": data, "lr": 0.5, "steps": 20}
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=method, **options)
    >>> min(result.records[-1].agent_accuracy), result.records[-1].bytes_by_kind
    (1.0, {'gradient': 24000, 'model': 24000})
    >>> result.records[-1].diagnostics["cosine"] < 0  # the neighbours' gradients oppose the agents' own
    True
    """

    momentum: float = 0.98
    nesterov: bool = False  # the released code's form of momentum
    aggregate: Aggregation = Projection()
    codec: Codec = Exact()  # of cross-gradients
    own_codec: Codec | None = None  # of the own gradient; None: as `codec`

    needs: ClassVar[Needs] = Needs.UNDIRECTED | Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.01
    diagnostics: ClassVar[tuple[Diagnostic, ...]] = DIAGNOSTICS
    rounds_per_step: ClassVar[int] = 2  # models out, cross-gradients back

    def __post_init__(self) -> None:
        check_momentum(self.momentum)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it sends beside models."""
        return (self.codec.kind,)

    def init(self, x: Tensor, net: Network) -> CGAState:
        agents, parameters = x.shape
        own_codec = self.own_codec or self.codec
        return CGAState(
            x=x,
            v=torch.zeros_like(x),
            own_memory=x.new_zeros(agents, parameters if own_codec.feedback else 0),
            memory=x.new_zeros(agents, net.slots if self.codec.feedback else 0, parameters),
            diagnostics=torch.zeros(agents, len(DIAGNOSTICS), dtype=torch.float64, device=x.device),
        )

    def step(self, s: CGAState, lr: float, grad: CrossGradient, net: Network) -> CGAState:
        shared = net.share(s.x)
        steps = torch.empty_like(s.v) if self.nesterov else s.v  # with heavy-ball momentum the velocity is the step
        for rows, g, G, pi in shared.cross_gradients(grad, self.codec, s.memory):
            g = send(self.own_codec or self.codec, g, s.own_memory[rows], grad.sizes).arrives_MD
            g, diagnostics = self.aggregate(g, G, pi, grad.sizes)
            step = move_(s.v[rows], g, lr, self.momentum, self.nesterov)
            if self.nesterov:
                steps[rows] = step
            s.diagnostics[rows] = COUNTED.to(diagnostics.device) * s.diagnostics[rows] + diagnostics
            del g, G, step  # before the next block is made
        return s._replace(x=shared.average_(plus=steps))


def comp_cga(momentum: float = 0.98) -> CGA:
    """CompCGA: every gradient, own and cross, as one bit per number with error feedback.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.

    Reference:
        Esfandiari, Tan, Jiang, Balu, Herron, Hegde, Sarkar: Cross-Gradient Aggregation for Decentralized Learning from
        Non-IID Data. ICML 2021, arXiv:2103.02051.

    A cross-gradient of 30 numbers is sent as 4 bytes of signs and 4 of scale:

    >>> import torch
    >>> import crossgrad as cg
    >>> _ = torch.manual_seed(0)  # of the first weights
    >>> labels = torch.arange(200) % 5
    >>> data = (torch.eye(5)[labels], labels)
    >>> model, method = torch.nn.Linear(5, 5), cg.comp_cga(momentum=0.5)
    >>> options = {"partition": "class", "test": data, "lr": 0.5, "steps": 20}
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=method, **options)
    >>> min(result.records[-1].agent_accuracy), result.records[-1].bytes_by_kind
    (1.0, {'code': 1600, 'model': 24000})
    """
    return CGA(momentum=momentum, codec=ScaledSign())


def released_cga(momentum: float = 0.9) -> CGA:
    """CGA as in the authors' released code: Nesterov, and a QP per tensor on weighted gradients with u >= 0.5.

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
    >>> model, method = torch.nn.Linear(5, 5), cg.released_cga(momentum=0.5)
    >>> options = {"partition": "class", "test": data, "lr": 0.5, "steps": 20}
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=method, **options)
    >>> min(result.records[-1].agent_accuracy), result.records[-1].bytes_by_kind
    (1.0, {'gradient': 24000, 'model': 24000})
    """
    return CGA(momentum=momentum, nesterov=True, aggregate=RELEASED)


def released_comp_cga(momentum: float = 0.9) -> CGA:
    """CompCGA as in the authors' released code: only the own gradient is compressed, tensor by tensor.

    The compression has one scale for each parameter tensor, no error feedback, and sgn(0) = 0.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.

    Reference:
        Esfandiari, Tan, Jiang, Balu, Herron, Hegde, Sarkar: Cross-Gradient Aggregation for Decentralized Learning from
        Non-IID Data. ICML 2021, arXiv:2103.02051.

    Cross-gradients are sent in full, as the released code does:

    >>> import torch
    >>> import crossgrad as cg
    >>> _ = torch.manual_seed(0)  # of the first weights
    >>> labels = torch.arange(200) % 5
    >>> data = (torch.eye(5)[labels], labels)
    >>> model, method = torch.nn.Linear(5, 5), cg.released_comp_cga(momentum=0.5)
    >>> options = {"partition": "class", "test": data, "lr": 0.5, "steps": 20}
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=method, **options)
    >>> min(result.records[-1].agent_accuracy), result.records[-1].bytes_by_kind
    (1.0, {'gradient': 24000, 'model': 24000})
    """
    own_codec = ScaledSign(per_tensor=True, feedback=False, keep_zeros=True)
    return CGA(momentum, nesterov=True, aggregate=RELEASED, own_codec=own_codec)
