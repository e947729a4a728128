"""Table 1 of the paper: rates and communication, and the bytes that a step here sends.

m_s is the bytes of a model, N_b the number of entries of Pi that are not zero, b the bits of a number, N the agents.
The paper counts the diagonal of Pi as messages, but no agent sends to itself: N_b - N messages are sent. Its gamma, the
cost of the passes through the network, is no communication and is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass

BITS_PER_NUMBER = 32  # of a number
SCALE_BYTES = 4  # of the factor that is sent with the signs of a gradient
PUSH_WEIGHT_BYTES = 4  # of a push-sum weight


@dataclass(frozen=True)
class Sizes:
    """The sizes on which the bytes of a step depend."""

    parameters: int
    agents: int
    entries: int  # of Pi that are not zero, its diagonal included

    @property
    def model(self) -> int:
        """Bytes of a model."""
        return self.parameters * BITS_PER_NUMBER // 8

    @property
    def messages(self) -> int:
        """Ordered pairs of neighbours."""
        return self.entries - self.agents

    @property
    def signs(self) -> int:
        """Bytes of a gradient as one bit per number and a factor."""
        return (self.parameters + 7) // 8 + SCALE_BYTES


@dataclass(frozen=True)
class Rate:
    """A line of Table 1: what the paper states, and what a step sends here."""

    method: str
    rate: str
    bounded_variance: str  # whether the rate assumes bounded variance and variation of gradients
    bounded_moment: str  # whether it assumes a bounded second moment
    printed: str  # bytes per mini-batch, as the paper has it
    printed_bytes: Callable[[Sizes], float]
    sent: str  # bytes per step, as it is here
    sent_bytes: Callable[[Sizes], float]
    why: str  # why the two differ


RATES = (
    Rate(
        "DPSGD",
        "O(1/K + 1/√(NK))",
        "yes",
        "no",
        "m_s N_b",
        lambda s: s.model * s.entries,
        "m_s (N_b - N)",
        lambda s: s.model * s.messages,
        "no agent sends to itself",
    ),
    Rate(
        "SGP",
        "O(1/K + 1/K^1.5 + 1/√(NK))",
        "yes",
        "no",
        "m_s N_b",
        lambda s: s.model * s.entries,
        f"(m_s + {PUSH_WEIGHT_BYTES}) (N_b - N)",
        lambda s: (s.model + PUSH_WEIGHT_BYTES) * s.messages,
        "no agent sends to itself, and a push-sum weight is sent with the model",
    ),
    Rate(
        "SwarmSGD",
        "O(1/√K)",
        "no",
        "yes",
        "m_s N_b / 2",
        lambda s: s.model * s.entries / 2,
        "2 m_s",
        lambda s: 2 * s.model,
        "in a step one pair swaps models, however many edges there are, and all others rest; for a mini-batch of every "
        "agent that is N m_s",
    ),
    Rate(
        "CGA",
        "O(1/K + 1/K^1.5 + 1/√(NK) + 1/K²)",
        "yes",
        "no",
        "2 m_s N_b",
        lambda s: 2 * s.model * s.entries,
        "2 m_s (N_b - N)",
        lambda s: 2 * s.model * s.messages,
        "no agent sends to itself",
    ),
    Rate(
        "CompCGA",
        "O(1/√(NK)), a hypothesis",
        "-",
        "-",
        "2 m_s N_b / b",
        lambda s: 2 * s.model * s.entries / BITS_PER_NUMBER,
        f"(m_s + m_s/b + {SCALE_BYTES}) (N_b - N)",
        lambda s: (s.model + s.signs) * s.messages,
        "only gradients are compressed: the models, half of what CGA sends, travel in full",
    ),
)
