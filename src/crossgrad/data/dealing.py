"""What the partitions have in common: checked arguments, samples by class, classes divided among holders."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgrad._numerics.seeding import stream
from crossgrad.data.partition import Partition

MAX_DRAWS = 1000


def partition_generator(labels: NDArray[np.int64], agents: int, seed: int) -> np.random.Generator:
    """Check a partition's arguments; return the generator that its random numbers are drawn from."""
    at_least_one("the number of agents", agents)
    if seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0; found {seed}.")
    if labels.ndim != 1 or agents > len(labels):
        raise ValueError(
            f"every agent needs at least one sample; found {agents} agents and "
            f"{len(labels)} samples. Use fewer agents or more samples."
        )
    return stream(seed, "part")


def sorted_by_label(labels: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """All samples, class after class, within each class in random order."""
    shuffled = rng.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def by_class(
    labels: NDArray[np.int64], classes: int | None, rng: np.random.Generator | None
) -> list[NDArray[np.int64]]:
    """The samples of each class, in random order if a generator is given."""
    if labels.dtype.kind not in "iu":
        raise ValueError(f"a division by class needs whole-number labels; found {labels.dtype}. Use IID or Shards.")
    C = int(labels.max()) + 1 if classes is None else classes
    if labels.min() < 0 or labels.max() >= C:
        raise ValueError(
            f"labels of {C} classes must be 0 to {C - 1}; found {labels.min()} to {labels.max()}. Renumber them."
        )
    order = np.argsort(labels, kind="stable") if rng is None else sorted_by_label(labels, rng)
    return np.split(order, np.cumsum(np.bincount(labels, minlength=C))[:-1])


def divide(groups: list[NDArray[np.int64]], holders: list[list[int]], agents: int) -> list[NDArray[np.int64]]:
    """Divide each class among its holders, in nearly equal parts."""
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(agents)]
    for group, who in zip(groups, holders, strict=True):
        for agent, part in zip(who, np.array_split(group, len(who)), strict=True):
            parts[agent].append(part)
    return [np.concatenate(part) for part in parts]


def draw_shares(
    groups: list[NDArray[np.int64]],
    draw: Callable[[], tuple[float, NDArray[np.float64]]],
    min_samples: int,
    rng: np.random.Generator,
    words: str,
) -> Partition:
    """Divide every class in random proportions, drawn again until every agent has `min_samples`.

    `draw` gives alpha and a weight per agent: a class's shares are those weights times a draw of Dirichlet(alpha).
    """
    n_C1 = np.array([len(group) for group in groups])[:, None]
    for _ in range(MAX_DRAWS):
        alpha, weight_N = draw()
        agents = len(weight_N)
        shares_CN = rng.dirichlet(np.full(agents, alpha), len(groups))
        if not (weight_N == 1).all():
            shares_CN = shares_CN * weight_N + 1e-300  # avoids a division by zero for a class whose shares all vanish
            shares_CN /= shares_CN.sum(1, keepdims=True)
        ends_CN = np.rint(shares_CN.cumsum(1) * n_C1).astype(np.int64)
        ends_CN[:, -1] = n_C1[:, 0]  # the sum of the shares is 1 but for rounding
        if np.diff(ends_CN, axis=1, prepend=0).sum(0).min() >= min_samples:
            cut = [np.split(group, ends[:-1]) for group, ends in zip(groups, ends_CN, strict=True)]
            return Partition(tuple(np.concatenate(mine) for mine in zip(*cut, strict=True)))
    raise ValueError(
        f"{words} must give each of {agents} agents at least {min_samples} of {int(n_C1.sum())} samples; "
        f"{MAX_DRAWS} draws did not. Raise alpha or lower the number of agents."
    )


def at_least_one(what: str, value: int) -> None:
    """Raise ValueError unless the value is a whole number of at least 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} must be a whole number of at least 1; found {value!r}.")
