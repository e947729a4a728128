"""A verdict says whether runs reached the paper's number, and whether they were long enough to tell."""

import pytest

from crossgrad._paper.tables import cell
from crossgrad._paper.verdict import long_enough, paper_verdict, settled

PAPER = cell("mnist-cnn-noniid", "CGA", "ring", 5)  # 98.5


@pytest.fixture
def by_epoch(record):
    """Records of these accuracies in percent, one after each epoch."""

    def make(*accuracies):
        return [record(step=94 * k, epoch=float(k), accuracy=a / 100) for k, a in enumerate(accuracies)]

    return make


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [
        (99.6, "above, by 1.1"),
        (99.4, "within 1 point"),
        (97.6, "within 1 point"),
        (97.4, "within 5 points"),
        (93.6, "within 5 points"),
        (93.4, "not reached, 5.1 below"),
    ],
)
def test_a_settled_run_is_judged_by_its_distance_from_the_papers_number(result, labels, by_epoch, accuracy, words):
    assert paper_verdict([result(labels(), by_epoch(10, *[accuracy] * 4))], PAPER) == words


def test_a_run_that_still_moves_is_said_not_to_be_at_its_end(result, labels, by_epoch):
    assert paper_verdict([result(labels(), by_epoch(10, 90, 95, 98.4))], PAPER) == "within 1 point, not run to the end"
    words = "not reached, 48.5 below, not run to the end"
    assert paper_verdict([result(labels(), by_epoch(10, 30, 50))], PAPER) == words


def test_seeds_are_judged_by_their_mean_and_the_shortest(result, labels, by_epoch):
    long, short = (result(labels(), by_epoch(10, *accuracies)) for accuracies in ([97.0] * 4, [99.0] * 2))
    assert paper_verdict([long, short], PAPER) == "within 1 point, not run to the end"


def test_divergence_is_named_with_its_step(result, labels, by_epoch):
    run = result(labels(), ended="diverged", reason="nonfinite at step 77: the loss of agent 3 was not finite")
    assert paper_verdict([run], PAPER) == "not reached: diverged (nonfinite at step 77)"
    diverges = cell("cifar10-cnn-noniid", "DPMSGD", "ring", 5)
    assert paper_verdict([run], diverges) == "diverged (nonfinite at step 77)"
    assert paper_verdict([result(labels(), by_epoch(10, *[95] * 4))], diverges) == "does not diverge"
    assert paper_verdict([result(labels())], diverges) == "does not diverge, not run to the end"


def test_what_was_not_run_or_has_no_number_is_said(result, labels):
    assert paper_verdict([], PAPER) == paper_verdict([result(labels(), records=[])], PAPER) == "not run"
    assert paper_verdict([result(labels())], None) == "no number in the paper"


def test_a_run_has_settled_when_three_epochs_lie_within_a_fifth_of_a_point(by_epoch):
    assert settled(by_epoch(10, 90, 95.00, 95.10, 95.05, 95.19))
    assert not settled(by_epoch(10, 90, 95.00, 95.10, 95.05, 95.21))
    assert not settled(by_epoch(10, 90, 95.00, 95.30, 95.10, 95.00))  # there and back is movement, too
    assert not settled(by_epoch(95, 95, 95, 95))  # two epochs after the first; the start does not count
    assert settled(by_epoch(95, 95, 95, 95, 95))
    assert not settled([])


def test_twenty_epochs_are_enough(by_epoch):
    rising = by_epoch(*range(10, 31))
    assert long_enough(rising)
    assert not long_enough(rising[:-1])
    assert not long_enough([])
