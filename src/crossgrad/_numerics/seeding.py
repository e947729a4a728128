"""Randomness as a pure function of (seed, purpose, numbers): the same in one process and in many."""

from hashlib import blake2b

import numpy as np


def key(seed: int, purpose: str, *numbers: int) -> int:
    """A 63-bit seed for one purpose, such as the dropout masks of agent 3 on its 17th batch.

    >>> key(0, "noise", 3, 17) == key(0, "noise", 3, 17)
    True
    >>> key(0, "noise", 3, 17) == key(0, "noise", 3, 18)
    False
    """
    text = f"{seed}/{purpose}/" + "/".join(map(str, numbers))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """A numpy generator of its own for one purpose; the global generators are never touched."""
    return np.random.default_rng(key(seed, purpose, *numbers))


def stream(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """As `generator`, but seeded by numpy's `SeedSequence` of (seed, numbers, the purpose's ASCII code).

    Partitions, mini-batches and random graphs are drawn from it, so that experiments keep the bits of the results that
    are kept in this repository. Everything else uses `generator`.

    >>> bool(stream(3, "part").random() == np.random.default_rng([3, 0x70617274]).random())
    True
    """
    entropy = [seed, *numbers, int.from_bytes(purpose.encode("ascii"), "big")]
    words = np.array(entropy, np.uint32) if max(entropy) < 2**32 else entropy  # the same bits; an array is faster
    return np.random.Generator(np.random.PCG64(words))
