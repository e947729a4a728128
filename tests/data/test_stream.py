"""Streams: batches in the order of the stream, the same bits after a resume, and sentences where a stream cannot do."""

import os
import signal

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset

from crossgrad import CGA, Faults, fit, ring
from crossgrad.data import Samples, StreamSamples

STEPS, BATCH, AGENTS = 6, 4, 3


def items(agent, count=None):
    """Items of an agent, noisy at every reading; without end unless a count is given."""
    number = 0
    while count is None or number < count:
        x = torch.sin(torch.arange(3.0) * (number + 1) + agent) + 0.1 * torch.randn(3)
        yield x + float(np.random.rand()), int(x[0] > 0)
        number += 1


class Endless(IterableDataset):
    def __init__(self, agent):
        self.agent = agent

    def __iter__(self):
        return items(self.agent)


def streams():
    return [Endless(0), lambda: items(1), lambda: items(2, count=10)]


def run(data=None, **more):
    torch.manual_seed(0)
    given = streams() if data is None else data
    options = {"steps": STEPS, "batch_size": BATCH, "evaluate_every": 2, "algorithm": CGA(0.5)} | more
    return fit(nn.Linear(3, 2), given, graph=ring(AGENTS), **options)


def parameters(result):
    return torch.cat([p.flatten() for p in result.model.parameters()])


def test_batches_are_the_stream_in_its_order_and_one_that_ends_begins_again():
    stream = StreamSamples(lambda: ((torch.tensor([float(i)]), i) for i in range(5)), head=2)
    drawn = [stream.batch(number, 3, 0, 0)[1].tolist() for number in range(4)]
    assert drawn == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]
    assert stream.batch(1, 3, 0, 0)[1].tolist() == [3, 4, 0]  # back again


def test_a_stream_trains_to_the_same_bits_as_its_batches_one_by_one():
    assert parameters(run()).equal(parameters(run()))
    assert not parameters(run()).equal(parameters(run(seed=1)))


def test_a_batch_is_the_same_bits_whether_those_before_it_were_read_or_passed_over():
    read, skipped = (StreamSamples(Endless(0)).batch for _ in range(2))
    for number in range(5):
        before = read(number, BATCH, seed=3, agent=1)
    assert skipped(4, BATCH, seed=3, agent=1)[0].equal(before[0])
    assert not skipped(4, BATCH, seed=3, agent=2)[0].equal(before[0])


def test_a_resumed_run_of_streams_has_the_bits_of_one_that_never_stopped(tmp_path, terminal_signals):
    whole = run()
    with pytest.warns(UserWarning, match="interrupted"):
        run(out=tmp_path / "run", on_step=interrupt_after(3))
    assert parameters(run(out=tmp_path / "run")).equal(parameters(whole))


def interrupt_after(step):
    def on_step(training):
        if training.step_number == step:
            os.kill(os.getpid(), signal.SIGINT)

    return on_step


def test_an_agent_that_is_away_misses_none_of_its_stream():
    faults = Faults(leave=0.4, away=2)
    result = run(faults=faults)
    drawn = result.training.oracle.drawn
    assert 0 < int(drawn.min()) < STEPS
    for agent, own in enumerate(result.training.agents):
        assert own._next == drawn[agent]


@pytest.mark.parametrize(
    ("data", "more", "sentence"),
    [
        (lambda: items(0), {}, "A partition deals out samples by their numbers, so it needs data of known length"),
        (None, {"epochs": 2, "steps": None}, "epochs is a number of passes over the data, .* found a stream"),
        (None, {"validation": 0.2}, "validation = 0.2 holds out a share of each agent's samples, so it needs"),
        (None, {"validation": lambda: items(0)}, "validation data is read whole, so it needs data of known length"),
        (None, {"test": lambda: items(0)}, "test data is read whole at every evaluation, so it needs"),
        (lambda: [items(0), items(1), items(2)], {}, "readable again from its start, .* found a generator"),
        (
            lambda: [lambda: iter(()), *streams()[1:]],
            {},
            "agent 0: a stream must have at least one sample; found none",
        ),
        (None, {"batch_size": 300}, "batch_size must be at most the 256 samples"),
    ],
)
def test_what_a_stream_cannot_do_is_one_sentence(data, more, sentence):
    if data is not None and "partition" not in sentence:
        data = data()
    with pytest.raises(ValueError, match=sentence):
        run(data, **more)


def test_samples_of_an_iterable_data_set_are_a_stream():
    assert isinstance(Samples.of(Endless(0)), StreamSamples)
