"""Corollary 1: with alpha = scale sqrt(N / K) the mean of |grad F|^2 falls like 1 / sqrt(N K)."""

import numpy as np
import pytest

from crossgrad.algorithms import CGA, DPMSGD
from crossgrad.graphs import fully_connected
from crossgrad.theory import corrected_bound, corrected_smallest_steps

SCALE, SIZE = 0.1, 40


def errors(losses, follow, method, agents_and_steps, common_noise: bool = False) -> dict[tuple[int, int], float]:
    """By agents and steps; half is the way to the minimum, half is noise."""
    found = {}
    for agents, steps in agents_and_steps:
        problem = losses(agents, size=SIZE, unlike=0.5, sigma=28.0, alike=True, seed=agents)
        problem.A = np.broadcast_to(np.diag(np.linspace(0.3, 1, SIZE)), (agents, SIZE, SIZE))
        problem.c = problem.c - problem.c.mean(axis=0)
        if common_noise:
            problem.rng = Common(problem.rng)
        run = follow(method, fully_connected(agents), problem, SCALE * (agents / steps) ** 0.5, steps)
        assert corrected_smallest_steps(run.constants, SCALE) <= steps
        assert common_noise or run.left <= corrected_bound(run.constants).total
        found[agents, steps] = run.left
    return found


class Common:
    """Noise that all agents share."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def normal(self, size: tuple[int, int]) -> np.ndarray:
        return np.tile(self.rng.normal(size=(1, size[1])), (size[0], 1))


def slope(found: dict[tuple[int, int], float]) -> float:
    """Of log error over log N K."""
    return float(np.polyfit([np.log(n * k) for n, k in found], np.log(list(found.values())), 1)[0])


@pytest.mark.parametrize(
    ("method", "runs"),
    [(DPMSGD(0.5), [(n, k) for k in (150, 600) for n in (1, 16)]), (CGA(0.5), [(n, 200) for n in (1, 2, 4)])],
    ids=["DPMSGD", "CGA"],
)
def test_the_error_falls_like_one_over_the_root_of_agents_times_steps(losses, follow, method, runs):
    found = errors(losses, follow, method, runs)
    assert -0.6 < slope(found) < -0.42
    rescaled = [error * (agents * steps) ** 0.5 for (agents, steps), error in found.items()]
    assert max(rescaled) < 1.6 * min(rescaled)  # without a speed-up: 4 for DPMSGD's 16 agents, 2 for CGA's 4


def test_with_noise_that_all_agents_share_there_is_no_such_speed_up(losses, follow):
    found = errors(losses, follow, DPMSGD(0.5), [(1, 400), (16, 400)], common_noise=True)
    assert found[16, 400] > found[1, 400]  # a quarter of it, were it not for the common noise
