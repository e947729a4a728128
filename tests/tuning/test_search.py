"""Which settings are tried: the grid first, then beyond an edge or where Optuna looks, within the budget."""

import itertools
import math

import pytest

from crossgrad._tuning.search import DIVERGED_SCORE, Trial, at_edge, best_of, next_points
from crossgrad._tuning.space import PLACES, Point, Space

SPACE = Space((0.01, 0.1, 1.0), (0.0, 0.9))


def search(space, score, budget):
    """All trials of a search whose scores are a function of step size and momentum."""
    trials = []
    while points := next_points(space, trials, budget, seed=0):
        for point in points:
            momentum = None if point.momentum is None else space.momentum_at(point.momentum)
            trials.append(Trial(point, score(space.lr_at(point.lr), momentum)))
    return trials


def peak(at):
    """A score with its maximum at one step size and without momentum."""
    return lambda lr, momentum: 1 / (1 + abs(math.log10(lr / at))) - (momentum or 0.0) / 10


def test_the_grid_is_tried_first_and_each_point_once():
    assert next_points(SPACE, [], 8, seed=0) == SPACE.grid()
    assert len(SPACE.grid()) == 6
    trials = search(SPACE, peak(0.1), 12)
    assert len({trial.point for trial in trials}) == len(trials) == 12


@pytest.mark.parametrize("at", [1e-4, 3e-3, 0.2, 50.0])
def test_the_best_step_size_is_not_left_at_an_edge(at):
    trials = search(SPACE, peak(at), 8)
    assert not at_edge(SPACE, trials)
    best = SPACE.lr_at(best_of(trials).point.lr)
    assert abs(math.log10(best / at)) <= 0.51  # the nearest point of the grid, or nearer


def test_all_methods_have_equally_many_trials_unless_the_best_lies_far_outside():
    assert {len(search(SPACE, peak(at), 10)) for at in (3e-3, 0.05, 0.2, 3.0)} == {10}
    assert len(search(Space(SPACE.lr), peak(0.2), 10)) == 10  # one without momentum
    assert len(search(SPACE, lambda lr, _: lr / (1 + lr), 6)) == 6 + 4  # which rises for ever: no more than that


def test_a_larger_momentum_is_tried_where_the_largest_is_the_best():
    trials = search(SPACE, lambda lr, momentum: momentum - abs(math.log10(lr / 0.1)), 8)
    assert {0.0, 0.9, 0.99} <= {SPACE.momentum_at(trial.point.momentum) for trial in trials}


def test_if_everything_diverges_smaller_step_sizes_are_tried():
    trials = search(SPACE, lambda lr, _: DIVERGED_SCORE if lr > 0.002 else 0.5, 8)
    assert best_of(trials).score == 0.5


def test_a_search_that_goes_on_proposes_what_it_would_have_proposed():
    trials = search(SPACE, peak(0.2), 9)
    assert next_points(SPACE, trials[:7], 9, seed=0) == [trials[7].point]


def test_step_sizes_between_are_on_the_logarithmic_scale():
    places = [SPACE.lr_at(place) for place in range(-PLACES, 3 * PLACES + 1)]
    ratios = [later / earlier for earlier, later in itertools.pairwise(places)]
    assert ratios == pytest.approx([10 ** (1 / PLACES)] * len(ratios), rel=0.01)
    assert Point(0, None) in Space(SPACE.lr).grid()


@pytest.mark.parametrize(
    ("lr", "momentum", "reason"),
    [
        ((0.1,), (), "two or more"),
        ((0.1, 0.01), (), "rising"),
        ((0.0, 1.0), (), "above 0"),
        ((0.1, 1.0), (1.0,), "below 1"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(lr, momentum, reason):
    with pytest.raises(ValueError, match=reason):
        Space(lr, momentum)
