"""Everything that the theory says about an experiment, given estimates from a short run of it."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from crossgrad._training.trainer import Training
from crossgrad.theory import limits
from crossgrad.theory.conditions import Condition, conditions, step_sizes
from crossgrad.theory.consensus import Consensus, corrected_consensus, printed_consensus
from crossgrad.theory.constants import Constants
from crossgrad.theory.coverage import Coverage, coverage
from crossgrad.theory.estimates import Estimates
from crossgrad.theory.theorem import (
    Bound,
    corrected_bound,
    corrected_coefficients,
    printed_bound,
    printed_coefficients,
)

RATE_ROUNDING = 1e-12  # a mixing rate that is 1 up to rounding


@dataclass(frozen=True)
class Claims:
    """What the lemma, the theorem and the corollary state about a run that they cover.

    Args:
        constants: with the largest step size and all steps of the run.
        estimates: of the constants.
        conditions: of the theorem, each with whether it holds.
    """

    constants: Constants  # with the largest step size and all steps of the run
    estimates: Estimates
    conditions: tuple[Condition, ...]

    @property
    def at_limit(self) -> Constants:
        """The same constants with the largest step size of the corrected theorem."""
        return replace(self.constants, lr=limits.corrected_limit(self.constants))

    @property
    def short_run(self) -> Constants:
        """The same constants over the steps that were measured."""
        return replace(self.constants, steps=self.estimates.steps)

    @property
    def printed(self) -> bool:
        """Whether the printed theorem makes a claim at this step size."""
        return self.constants.lr <= limits.printed_limit(self.constants)

    @property
    def corrected(self) -> bool:
        """Whether the corrected theorem does."""
        return self.constants.lr <= limits.corrected_limit(self.constants)

    def lemma(self) -> tuple[Consensus, Consensus]:
        """Lemma 1's right sides over the measured steps: printed, corrected."""
        c = self.short_run
        return printed_consensus(c, self.estimates.gradients * c.steps), corrected_consensus(c)

    def as_json(self) -> dict[str, Any]:
        """Everything as plain numbers."""
        c = self.constants
        printed, corrected = self.lemma()
        coefficients = printed_coefficients(c)
        return {
            "constants": asdict(c),
            "limits": {
                "printed_first": limits.printed_first_limit(c),
                "printed_second": limits.printed_second_limit(c),
                "corrected": limits.corrected_limit(c),
            },
            "coefficients": {
                "printed": coefficients and asdict(coefficients),
                "corrected": asdict(corrected_coefficients(c)),
            },
            "bound": {
                "printed": _terms(printed_bound(c), self.printed),
                "corrected": _terms(corrected_bound(c), self.corrected),
                "corrected_at_limit": _terms(corrected_bound(self.at_limit), True),
            },
            "lemma": {
                "measured": self.estimates.consensus * self.estimates.steps,
                "printed": asdict(printed) | {"total": printed.total},
                "corrected": asdict(corrected) | {"total": corrected.total},
            },
            "smallest_steps": {
                "printed": limits.printed_smallest_steps(c),
                "corrected": limits.corrected_smallest_steps(c),
            },
            "conditions": [asdict(condition) for condition in self.conditions],
        }


@dataclass(frozen=True)
class Verdict:
    """What the theory says of an experiment.

    Args:
        coverage: whether the theorem applies to the algorithm.
        mixing_rate: sqrt(rho)
        estimates: of the constants.
        claims: None where the theorem does not apply.
    """

    coverage: Coverage
    mixing_rate: float  # sqrt(rho)
    estimates: Estimates
    claims: Claims | None  # None where the theory is silent

    def as_json(self) -> dict[str, Any]:
        """Everything as plain numbers; null where a bound or limit is infinite or undefined."""
        algorithm = {"covered": self.coverage.covered, "says": self.coverage.sentence}
        graph = {"sqrt_rho": self.mixing_rate, "rho": self.mixing_rate**2, "spectral_gap": 1 - self.mixing_rate}
        known = {"algorithm": algorithm, "graph": graph, "estimates": asdict(self.estimates)}
        return _finite_json(known | (self.claims.as_json() if self.claims else {}))  # type: ignore[no-any-return]


def check_theory(training: Training) -> None:
    """Raise ValueError if the paper's theory does not apply to a run at all.

    Args:
        training: a run that has not started.
    """
    changes = "" if training.graph.period == 1 else f"{training.graph.name!r} changes from step to step"
    if not changes and training.scenario.faults.any:
        changes = "faults change it from step to step"
    if changes:
        raise ValueError(
            f"the paper's theory is about one fixed graph; {changes}. Use a fixed graph such as graph=ring, and no "
            "faults."
        )


def verdict(training: Training, estimates: Estimates) -> Verdict:
    """What the theory says about this run.

    Args:
        training: a run that has not started.
        estimates: of the constants.
    """
    covers, rate = coverage(training.algorithm), training.graph.mixing_rate
    if covers.covered and rate > 1 - RATE_ROUNDING:
        covers = Coverage(
            False,
            covers.momentum,
            "Assumption 4 is violated: sqrt(rho) = 1, so averaging never forgets differences, and neither lemma nor "
            "theorem says anything. Give agents some weight of their own.",
        )
    if not covers.covered:
        return Verdict(covers, rate, estimates, None)
    least, largest = step_sizes(training.settings.schedule, training.total_steps * training.epochs_per_step)
    constants = Constants(
        L=estimates.L,
        sigma=estimates.sigma,
        delta=estimates.delta,
        epsilon=estimates.epsilon,
        start=estimates.start,
        agents=training.graph.agents,
        momentum=covers.momentum,
        lr=largest,
        mixing_rate=rate,
        steps=training.total_steps,
    )
    return Verdict(covers, rate, estimates, Claims(constants, estimates, tuple(conditions(constants, least))))


def _terms(bound: Bound, claimed: bool) -> dict[str, Any]:
    return asdict(bound) | {"total": bound.total, "claimed": claimed}


def _finite_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite_json(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
