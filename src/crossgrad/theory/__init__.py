"""The paper's convergence theory: step-size limits, bounds term by term, and which condition a run violates.

`printed` is what the paper says, `corrected` what follows from its assumptions; docs/theory.md derives it.

>>> c = Constants(L=1.0, sigma=1.0, delta=0.0, epsilon=0.0, start=1.0, agents=10, momentum=0.0, lr=0.1, steps=1000)
>>> round(corrected_limit(c), 4), round(corrected_bound(c).total, 4), printed_bound(c).total
(0.1937, 0.1294, inf)
"""

from crossgrad.theory.conditions import Condition, conditions, step_sizes
from crossgrad.theory.consensus import Consensus, corrected_consensus, printed_consensus
from crossgrad.theory.constants import Constants
from crossgrad.theory.coverage import Coverage, coverage
from crossgrad.theory.estimates import Estimates, estimate
from crossgrad.theory.limits import (
    corrected_limit,
    corrected_smallest_steps,
    printed_first_limit,
    printed_limit,
    printed_second_limit,
    printed_smallest_steps,
)
from crossgrad.theory.theorem import (
    Bound,
    Coefficients,
    corrected_bound,
    corrected_coefficients,
    printed_bound,
    printed_coefficients,
)
from crossgrad.theory.verdict import Claims, Verdict, check_theory, verdict

__all__ = [
    "Bound",
    "Claims",
    "Coefficients",
    "Condition",
    "Consensus",
    "Constants",
    "Coverage",
    "Estimates",
    "Verdict",
    "check_theory",
    "conditions",
    "corrected_bound",
    "corrected_coefficients",
    "corrected_consensus",
    "corrected_limit",
    "corrected_smallest_steps",
    "coverage",
    "estimate",
    "printed_bound",
    "printed_coefficients",
    "printed_consensus",
    "printed_first_limit",
    "printed_limit",
    "printed_second_limit",
    "printed_smallest_steps",
    "step_sizes",
    "verdict",
]
