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
