"""Neighbourhood gradient clustering: the mean of the gradients that a neighbourhood takes at its models."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from crossgrad.algorithms.aggregation import Mean
from crossgrad.algorithms.api import CrossGradient, Needs, Network, SharedModels
from crossgrad.algorithms.steps import check_momentum, move_
from crossgrad.codecs.codec import Codec, Exact, ScaledSign, send


class NGCState(NamedTuple):
    """Models and velocities, error memories, and averages of the step before."""

    x: Tensor
    v: Tensor
    own_memory: Tensor  # of the own gradient (empty without feedback)
    memory: Tensor  # of the gradients for each neighbour, kept by the sender (empty without feedback)
    average: Tensor  # W x of the step before (empty without quasi-global momentum)
    begun: Tensor  # 0 before the first step, then 1


@dataclass(frozen=True)
class NGC:
    """Neighbourhood gradient clustering: step along the mean of cross-gradients.

    Rule:
        g~_j = alpha sum_l pi_jl grad F_l(x_j) + (1 - alpha) sum_l pi_jl grad F_j(x_l)
        v <- beta v - lr g~,  x <- W x + v
        quasi-global: m <- beta m + (1 - beta) (W x_previous - W x) / lr,  x <- W x - lr (beta m + g~)

    The first sum is over gradients that neighbours compute at the agent's model and send back in a second message. With
    alpha = 0 there is no such message. The second sum is over gradients that the agent computes itself at its
    neighbours' models. An alpha between 0 and 1 needs both sums, and thus twice as many gradients. The weights are
    those of W; the released program has equal weights, which are the same on a regular graph.

    With a codec (CompNGC), every gradient of the first sum, including the own one, is compressed with error feedback.

    Reference:
        Aketi, Kodge, Roy: Neighborhood Gradient Clustering: An Efficient Decentralized Learning Method for Non-IID Data
        Distributions. 2022, arXiv:2209.14390.

    Args:
        alpha: share of the gradients that neighbours send back, from 0 to 1; the authors use 0 and 1.
        momentum: the share of the last velocity that is kept, 0 to below 1.
        nesterov: whether to take Nesterov's form of the momentum.
        quasi_global: whether the momentum follows the averaged models.
        codec: how messages are encoded.

    Gradients that neighbours send back bring agents nearer to one another than DPSGD:

    >>> import torch
    >>> import crossgrad as cg
    >>> data = [(torch.ones(32, 1), torch.full((32, 1), float(k))) for k in range(5)]  # agent k's targets are all k
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=cg.NGC(momentum=0.0), lr=0.2, steps=20)
    >>> [round(result.agent_model(k).weight.item(), 1) for k in range(5)]  # on all data, 2 is best
    [1.8, 1.6, 2.0, 2.4, 2.2]
    """

    alpha: float = 1.0  # share of the gradients that neighbours send back, from 0 to 1; the authors use 0 and 1
    momentum: float = 0.9
    nesterov: bool = False
    quasi_global: bool = False  # whether the momentum follows the averaged models
    codec: Codec = Exact()

    needs: ClassVar[Needs] = Needs.UNDIRECTED | Needs.DOUBLY_STOCHASTIC
    step_size: ClassVar[float] = 0.01

    def __post_init__(self) -> None:
        check_momentum(self.momentum)
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"NGC's alpha must be from 0 to 1; found {self.alpha}. 0 saves the second message.")
        if self.nesterov and self.quasi_global:
            raise ValueError(
                "NGC has Nesterov's momentum or the quasi-global one; found both. Set one of them to false."
            )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of message besides models."""
        return (self.codec.kind,) if self.alpha else ()

    @property
    def rounds_per_step(self) -> int:
        """Models out and, with alpha = 1, cross-gradients back."""
        return 2 if self.alpha else 1

    def init(self, x: Tensor, net: Network) -> NGCState:
        agents, D = x.shape
        keep = bool(self.alpha) and self.codec.feedback
        return NGCState(
            x=x,
            v=torch.zeros_like(x),
            own_memory=x.new_zeros(agents, D if keep else 0),
            memory=x.new_zeros(agents, net.slots if keep else 0, D),
            average=x.new_zeros(agents, D if self.quasi_global else 0),
            begun=torch.zeros_like(x[:, :1]),
        )

    def step(self, s: NGCState, lr: float, grad: CrossGradient, net: Network) -> NGCState:
        models = net.share(s.x)
        heavy_ball = not self.nesterov and not self.quasi_global
        steps = s.v if heavy_ball else torch.empty_like(s.v)  # with heavy-ball momentum the velocity is the step
        for rows, g in self._gradients(s, grad, models):
            step = g if self.quasi_global else move_(s.v[rows], g, lr, self.momentum, self.nesterov)
            if not heavy_ball:
                steps[rows] = step
            del g, step  # before the next block is made
        if self.quasi_global:
            return self._quasi_global(s, models.average_(), steps, lr)
        return s._replace(x=models.average_(plus=steps))

    def _gradients(self, s: NGCState, grad: CrossGradient, models: SharedModels) -> Iterator[tuple[slice, Tensor]]:
        """Yield the mean gradients g~, one block of agents after another."""
        if self.alpha == 0:
            for rows, g, G, pi in models.own_gradients(grad):
                yield rows, Mean()(g, G, pi, grad.sizes)[0]
            return
        for rows, own, G, pi in models.cross_gradients(grad, self.codec, s.memory):
            g = send(self.codec, own, s.own_memory[rows], grad.sizes).arrives_MD
            g, _ = Mean()(g, G, pi, grad.sizes)
            if self.alpha < 1:
                _, own, G, pi = models.at_neighbours(grad, rows, own)
                g.mul_(self.alpha).add_(Mean()(own, G, pi, grad.sizes)[0], alpha=1 - self.alpha)
            del own, G
            yield rows, g

    def _quasi_global(self, s: NGCState, average: Tensor, g: Tensor, lr: float) -> NGCState:
        moved = s.average.sub_(average).mul_(s.begun).mul_((1 - self.momentum) / lr)
        m = s.v.mul_(self.momentum).add_(moved)
        x = torch.sub(average, g.add_(m, alpha=self.momentum).mul_(lr), out=g)
        return s._replace(x=x, average=average, begun=s.begun.fill_(1))


def comp_ngc(momentum: float = 0.9) -> NGC:
    """CompNGC: every gradient, own and neighbours', as one bit per number with error feedback.

    Args:
        momentum: the share of the last velocity that is kept, 0 to below 1.

    Reference:
        Aketi, Kodge, Roy: Neighborhood Gradient Clustering: An Efficient Decentralized Learning Method for Non-IID Data
        Distributions. 2022, arXiv:2209.14390.

    A cross-gradient of 30 numbers is sent as 4 bytes of signs and 4 of scale:

    >>> import torch
    >>> import crossgrad as cg
    >>> _ = torch.manual_seed(0)  # of the first weights
    >>> labels = torch.arange(200) % 5
    >>> data = (torch.eye(5)[labels], labels)
    >>> model, method = torch.nn.Linear(5, 5), cg.comp_ngc(momentum=0.5)
    >>> options = {"partition": "class", "test": data, "lr": 0.5, "steps": 20}
    >>> result = cg.fit(model, data, graph=cg.ring(5), algorithm=method, **options)
    >>> min(result.records[-1].agent_accuracy), result.records[-1].bytes_by_kind
    (1.0, {'code': 1600, 'model': 24000})
    """
    return NGC(momentum=momentum, codec=ScaledSign())
