"""The ways to compute gradients."""

from enum import Enum


class Gradients(Enum):
    """How the gradients of all agents are computed. The results agree up to rounding."""

    AUTO = "auto"  # all in one pass where the model is small, and has no buffers or random layers; else one by one
    LOOP = "loop"  # one by one
    BATCHED = "batched"  # all in one pass
    COMPILED = "compiled"  # the same, compiled: some seconds at the start, less for each step
