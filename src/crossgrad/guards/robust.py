"""What an agent makes of its neighbours' models when some of them may be hostile.

K: neighbours whose message arrived, D: parameters.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class RobustRule(Protocol):
    """Replaces the weighted average of an agent's own model and its neighbours'."""

    def __call__(self, own_D: Tensor, received_KD: Tensor, pi_K: Tensor) -> Tensor:
        """The next model of an agent.

        Args:
            own_D: the agent's own.
            received_KD: the neighbours', as they arrived.
            pi_K: the neighbours' weights; the own weight is what is left to 1.
        """


@dataclass(frozen=True)
class SelfCentredClipping:
    """The average of models that are at most `radius` away from the own one; others are first moved that close.

    x_i <- x_i + sum_l pi_il (x_l - x_i) min(1, radius / |x_l - x_i|)

    A hostile neighbour l moves an agent by at most pi_il radius in a step. A radius below the usual distance between
    honest neighbours slows their agreement down.

    Reference:
        He, Karimireddy, Jaggi: Byzantine-Robust Decentralized Learning via ClippedGossip. 2022, arXiv:2202.01545.

    Args:
        radius: the largest distance, in the norm over all parameters.

    >>> rule = SelfCentredClipping(radius=1.0)
    >>> rule(torch.zeros(2), torch.tensor([[0.0, 0.5], [100.0, 0.0]]), torch.tensor([0.5, 0.25])).tolist()
    [0.25, 0.25]
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("radius", self.radius)

    def __call__(self, own_D: Tensor, received_KD: Tensor, pi_K: Tensor) -> Tensor:
        away_KD = received_KD - own_D
        return own_D + (pi_K * _shrink(away_KD, self.radius)) @ away_KD


@dataclass(frozen=True)
class NormClipping:
    """The average of models whose norm is at most `factor` times the own model's; larger ones are scaled down.

    It limits the effect of messages with huge numbers, and nothing else: a model with the usual norm and the wrong
    direction is not changed.

    Reference:
        Sun, Kairouz, Suresh, McMahan: Can You Really Backdoor Federated Learning? 2019, arXiv:1911.07963.

    Args:
        factor: the largest norm, as a multiple of the own model's.

    >>> rule = NormClipping(factor=2.0)
    >>> rule(torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 80.0]]), torch.tensor([0.5])).tolist()
    [0.5, 1.0]
    """

    factor: float = 1.5

    def __post_init__(self) -> None:
        _check_positive("factor", self.factor)

    def __call__(self, own_D: Tensor, received_KD: Tensor, pi_K: Tensor) -> Tensor:
        largest = self.factor * float(torch.linalg.vector_norm(own_D))
        return (1 - pi_K.sum()) * own_D + (pi_K * _shrink(received_KD, largest)) @ received_KD


@dataclass(frozen=True)
class CoordinateMedian:
    """For every parameter, the median over the own model and the neighbours' models. Weights are not used.

    With an even number of models it is the mean of the two in the middle. With non-IID data honest models differ, and
    the median ignores the rarer ones, so it is not the average even without a hostile agent.

    Reference:
        Yin, Chen, Ramchandran, Bartlett: Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates.
        ICML 2018, arXiv:1803.01498.

    >>> CoordinateMedian()(torch.tensor([1.0]), torch.tensor([[2.0], [900.0]]), torch.tensor([0.3, 0.3])).tolist()
    [2.0]
    """

    def __call__(self, own_D: Tensor, received_KD: Tensor, pi_K: Tensor) -> Tensor:
        sorted_LD = torch.cat([own_D[None], received_KD]).sort(dim=0).values
        last = len(sorted_LD) - 1
        return (sorted_LD[last // 2] + sorted_LD[(last + 1) // 2]) / 2


@dataclass(frozen=True)
class TrimmedMean:
    """For every parameter, the mean of the models without the `trim` largest and smallest values. Weights are not used.

    An agent with fewer than 2 trim + 1 models, its own included, leaves out fewer, so that one or two remain.

    Reference:
        Yin, Chen, Ramchandran, Bartlett: Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates.
        ICML 2018, arXiv:1803.01498.

    Args:
        trim: how many hostile neighbours an agent may have.

    >>> TrimmedMean(1)(torch.tensor([1.0]), torch.tensor([[3.0], [900.0], [2.0]]), torch.full((3,), 0.25)).tolist()
    [2.5]
    """

    trim: int = 1

    def __post_init__(self) -> None:
        if self.trim < 1:
            raise ValueError(f"trim must be at least 1; found {self.trim}. Without trimming no rule is needed.")

    def __call__(self, own_D: Tensor, received_KD: Tensor, pi_K: Tensor) -> Tensor:
        sorted_LD = torch.cat([own_D[None], received_KD]).sort(dim=0).values
        trim = min(self.trim, (len(sorted_LD) - 1) // 2)
        return sorted_LD[trim : len(sorted_LD) - trim].mean(dim=0)


def _shrink(rows_KD: Tensor, largest: float) -> Tensor:
    """For every row, the factor that brings its norm down to `largest` at most."""
    norms_K = torch.linalg.vector_norm(rows_KD, dim=1)
    shrink_K: Tensor = (largest / norms_K.clamp(min=torch.finfo(rows_KD.dtype).tiny)).clamp(max=1.0)
    return shrink_K


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be above 0 and finite; found {value}.")
