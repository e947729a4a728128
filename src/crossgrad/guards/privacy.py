"""Differentially private gradients: clipped sample by sample, with Gaussian noise, and an account of the privacy loss.

D: parameters.
"""

import math
import warnings
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

ORDERS = (
    [1 + part / 100 for part in range(1, 10)]
    + [1 + tenth / 10 for tenth in range(1, 100)]
    + list(range(11, 64))
    + [2**power for power in range(6, 13)]
)


class PrivacyGuard(Protocol):
    """What is done to an agent's gradients before the algorithm uses them."""

    @property
    def clip(self) -> float:
        """The largest norm of the gradient of one sample; longer ones are scaled down."""

    def add_noise_(self, g_D: Tensor, samples: int, rng: np.random.Generator) -> None:
        """Add noise to the mean of so many samples' clipped gradients."""

    def check(self) -> None:
        """Raise unless privacy can be accounted for."""

    def epsilon(self, uses: int) -> float:
        """The privacy loss of a sample that so many gradients were computed from."""


@dataclass(frozen=True)
class GaussianNoise:
    """Clips the gradient of each sample, averages them, and adds Gaussian noise to the average.

    g = (1/B) (sum_s g_s min(1, clip / |g_s|) + multiplier clip n),   n ~ N(0, I)

    It is applied to every gradient, own and cross, when it is computed. All models, trackers and cross-gradients that
    are sent are computed from such gradients only, so the guarantee for gradients holds for everything that neighbours
    see.

    A sample is used once for every noisy gradient with the sample in its batch. After U uses the sample has
    (epsilon, delta)-differential privacy as from U Gaussian mechanisms with this noise multiplier, against all
    neighbours together. Batches come from permutations of the samples and are not drawn independently, so no
    amplification by sampling is counted. Two data sets are neighbouring if they differ in that the gradients of one
    sample are zero.

    Reference:
        Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang: Deep Learning with Differential Privacy. CCS 2016,
        arXiv:1607.00133. The account is that of Opacus, by Mironov: Renyi Differential Privacy. CSF 2017,
        arXiv:1702.07476.

    Args:
        clip: largest norm of a sample's gradient.
        multiplier: standard deviation of the noise on the sum, in units of `clip`.
        delta: that of (epsilon, delta)-differential privacy, well below one over the number of samples.

    >>> g = torch.zeros(10_000)
    >>> GaussianNoise(clip=2.0, multiplier=0.5).add_noise_(g, samples=4, rng=np.random.default_rng(0))
    >>> round(float(g.std()), 2)
    0.25
    """

    clip: float = 1.0
    multiplier: float = 1.0
    delta: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("clip", "multiplier"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0 and finite; found {getattr(self, name)}.")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must be between 0 and 1; found {self.delta}.")

    def add_noise_(self, g_D: Tensor, samples: int, rng: np.random.Generator) -> None:
        """Add the noise to the mean of so many samples' clipped gradients."""
        normal_D = torch.from_numpy(rng.standard_normal(len(g_D))).to(g_D)
        g_D.add_(normal_D, alpha=self.multiplier * self.clip / samples)

    def check(self) -> None:
        """Raise unless there is an accountant."""
        _accountant()

    def epsilon(self, uses: int) -> float:
        """The epsilon of a sample that was used so often, for the guard's delta.

        Args:
            uses: noisy gradients with the sample in their batches.
        """
        if uses == 0:
            return 0.0
        rdp = _accountant()
        spent = rdp.compute_rdp(q=1.0, noise_multiplier=self.multiplier, steps=uses, orders=ORDERS)
        with warnings.catch_warnings():  # that the best order is at an end of the list: the bound holds all the same
            warnings.simplefilter("ignore")
            return float(rdp.get_privacy_spent(orders=ORDERS, rdp=spent, delta=self.delta)[0])


def secret_generator(secret: int, agent: int, batch: int, x_D: Tensor) -> np.random.Generator:
    """The generator of the noise of one agent's gradient on one of its batches at one model.

    The same request twice gets the same noise, so asking again reveals nothing new, and the order of requests does not
    matter.
    """
    content = blake2b(f"{secret}/{agent}/{batch}/".encode(), digest_size=32)
    content.update(x_D.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return np.random.default_rng(int.from_bytes(content.digest(), "big"))


def clip_(g_D: Tensor, largest: float) -> Tensor:
    """Scale one sample's gradient down to a norm of at most `largest`; one that is not finite becomes zero."""
    norm = torch.linalg.vector_norm(g_D)
    if not bool(norm.isfinite()):
        return g_D.zero_()
    return g_D.mul_((largest / norm.clamp(min=torch.finfo(g_D.dtype).tiny)).clamp(max=1.0))


def _accountant() -> Any:
    try:
        from opacus.accountants.analysis import rdp
    except ImportError:
        raise ValueError(
            "noise needs an account of how private it is, by the package opacus; it is not installed. Install it by "
            "`pip install 'crossgrad[privacy]'`."
        ) from None
    return rdp
