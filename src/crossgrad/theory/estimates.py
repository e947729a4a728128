"""Estimates of the theorem's constants on a short run of an experiment.

N: agents, D: parameters.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from crossgrad._training.trainer import Training
from crossgrad.theory.recorder import RecordedAlgorithm
from crossgrad.theory.slopes import Slopes

Report = Callable[[str, int, int], None]  # what is being done, and how many steps of how many

MEASURED = ("left", "consensus", "gradients", "delta^2", "sigma^2", "epsilon^2")
FIRST_SHARE, LAST_SHARE = 0.2, 0.2  # of the seconds, for the curvature before and after the steps


@dataclass(frozen=True)
class Estimates:
    """Constants measured on a short run. All but `start` are estimates; sigma, delta and epsilon are root mean squares.

    The theorem's assumptions are bounds over all models; its proof needs these means only, over the run it speaks of.

    Args:
        L: the largest curvature found; the true one is at least this where all samples are used.
        sigma: the noise of the gradients.
        delta: how much the agents' gradients differ.
        epsilon: how far the projection moves a gradient.
        start: F at the first averaged model, which is at least F - F* as losses are not negative.
        left: mean of |grad F(average)|^2 over the steps.
        consensus: mean over steps and agents of the squared distance from the average.
        gradients: mean of |1/N sum_i grad f_i(x^i)|^2.
        steps: the steps that were run.
        all_samples: whether gradients are over all samples of each agent; else over a part.
        settled: whether the search for L converged; else L may be larger.
        complete: whether all steps were run; else time was over before.
    """

    L: float  # the largest curvature found; the true one is at least this where all samples are used
    sigma: float
    delta: float
    epsilon: float
    start: float  # F at the first averaged model, which is at least F - F* as losses are not negative
    left: float  # mean of |grad F(average)|^2 over the steps
    consensus: float  # mean over steps and agents of the squared distance from the average
    gradients: float  # mean of |1/N sum_i grad f_i(x^i)|^2
    steps: int  # that were run
    all_samples: bool  # or gradients are over a part of each agent's samples
    settled: bool  # or the search for L was cut short, and L is larger
    complete: bool  # or the seconds were over before all steps


def estimate(training: Training, steps: int, seconds: float, report: Report) -> Estimates:
    """Run the first steps of `training` and measure at each of them; at least one step, even if time is short.

    Args:
        training: a run that has not started.
        steps: the largest number of steps to run.
        seconds: time after which to stop.
        report: called with what is being measured, the steps done and their number.
    """
    algorithm = training.algorithm
    training.algorithm = recorded = RecordedAlgorithm(algorithm)
    try:
        return _estimate(training, recorded, min(steps, training.total_steps), seconds, report)
    finally:
        training.algorithm = algorithm


def _estimate(training: Training, recorded: RecordedAlgorithm, steps: int, seconds: float, report: Report) -> Estimates:
    slopes, began = Slopes(training), time.monotonic()
    until = began + FIRST_SHARE * seconds
    first = slopes.sharpness(_average_model(training.state.x), until, lambda what: report(what, 0, steps))
    sums, start, done = torch.zeros(len(MEASURED), dtype=torch.float64), 0.0, 0
    while done < steps and (done == 0 or time.monotonic() < began + (1 - LAST_SHARE) * seconds):
        report("steps", done, steps)
        x_ND = training.state.x.clone()  # a step works in place
        training.step()
        _check_finite(training)
        measured, loss = _measure_models(slopes, x_ND, recorded)
        sums += measured
        start = loss if done == 0 else start
        done += 1
    last = slopes.sharpness(_average_model(training.state.x), began + seconds, lambda what: report(what, done, steps))
    L = max(first.value, last.value)
    if not 0 < L < math.inf:
        raise ValueError(f"the theorem needs losses with some curvature L; found {L:g} at the averaged model.")
    mean = dict(zip(MEASURED, (sums / done).tolist(), strict=True))
    return Estimates(
        L=L,
        sigma=math.sqrt(mean["sigma^2"]),
        delta=math.sqrt(mean["delta^2"]),
        epsilon=math.sqrt(mean["epsilon^2"]),
        start=start,
        left=mean["left"],
        consensus=mean["consensus"],
        gradients=mean["gradients"],
        steps=done,
        all_samples=slopes.all_of_them,
        settled=max(first, last).settled,
        complete=done == steps,
    )


def _measure_models(slopes: Slopes, x_ND: Tensor, recorded: RecordedAlgorithm) -> tuple[Tensor, float]:
    """The numbers of MEASURED at the models before a step, and F at their average."""
    agents, average_D = len(x_ND), _average_model(x_ND)
    own_D, here_D = (torch.zeros_like(average_D, dtype=torch.float64) for _ in range(2))
    here_squared = noise = loss = 0.0
    for agent in range(agents):
        at_own_D, _ = slopes.gradient(x_ND[agent], agent)
        at_average_D, value = slopes.gradient(average_D, agent)
        own_D += at_own_D / agents
        here_D += at_average_D / agents
        here_squared += _squared(at_average_D) / agents
        loss += value / agents
        if bool(recorded.active_N[agent]):
            noise += _squared(recorded.own_ND[agent] - at_own_D) / int(recorded.active_N.sum())
    left = _squared(here_D)
    consensus, epsilon = ((a - b).double().square().sum() for a, b in ((x_ND, average_D), recorded.both))
    parts = [left, float(consensus) / agents, _squared(own_D), here_squared - left, noise, float(epsilon) / agents]
    return torch.tensor(parts, dtype=torch.float64).clamp(min=0), loss


def _average_model(x_ND: Tensor) -> Tensor:
    return x_ND.double().mean(dim=0).to(x_ND)


def _squared(vector_D: Tensor) -> float:
    return float(vector_D.double().square().sum())


def _check_finite(training: Training) -> None:
    bad = training.first_bad.isfinite().nonzero()[:, 0].tolist()
    if bad:
        raise ValueError(
            f"the constants are estimated on a run with finite losses; that of agent {bad[0]} was not at step "
            f"{training.step_number}. Use a smaller step size."
        )
