"""Batches are a pure function of seed, agent and step, and every local epoch sees every sample once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgrad.data import Batches


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**40))
def test_every_sample_occurs_once_per_local_epoch_and_every_batch_is_full(n, batch_size, seed):
    batches = Batches([n], batch_size, seed)
    B = min(batch_size, n)
    stream = [batches.indices(0, i) for i in range(-(-5 * n // B))]
    assert {len(batch) for batch in stream} == {B}
    for epoch in np.concatenate(stream)[: 5 * n].reshape(5, n):
        assert sorted(epoch.tolist()) == list(range(n))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 40), st.data())
def test_random_access_equals_a_fresh_start(sizes, batch_size, data):
    used = Batches(sizes, batch_size, 5)
    for _ in range(10):
        agent, i = data.draw(st.integers(0, len(sizes) - 1)), data.draw(st.integers(0, 100))
        np.testing.assert_array_equal(used.indices(agent, i), Batches(sizes, batch_size, 5).indices(agent, i))


def test_an_agents_batches_do_not_depend_on_the_other_agents():
    np.testing.assert_array_equal(Batches([9, 20], 4, 0).indices(1, 3), Batches([50, 20, 7], 4, 0).indices(1, 3))


def test_seeds_agents_and_epochs_are_shuffled_differently():
    def first(seed, agent, epoch):
        return tuple(Batches([50, 50], 50, seed).indices(agent, epoch))

    orders = {first(seed, agent, epoch) for seed in (0, 1) for agent in (0, 1) for epoch in (0, 1)}
    assert len(orders) == 8


def test_the_global_generator_is_not_touched():
    state = np.random.get_state()[1].copy()
    Batches([10], 3, 0).indices(0, 0)
    np.testing.assert_array_equal(state, np.random.get_state()[1])


def test_changing_a_batch_does_not_change_the_stream():
    batches = Batches([6], 6, 0)
    before = batches.indices(0, 0).tolist()
    batches.indices(0, 0)[:] = -1
    assert batches.indices(0, 0).tolist() == before


def test_batches_fit_the_smallest_agent():
    assert Batches([100, 3], 16, 0).batch_sizes == (16, 3)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 40), st.data())
def test_batches_of_many_agents_are_those_of_each(sizes, batch_size, data):
    used = Batches(sizes, batch_size, 5)
    for _ in range(5):
        agents = np.array(sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1)))), np.int64)
        numbers = np.array([data.draw(st.integers(0, 100)) for _ in agents], np.int64)
        each = [Batches(sizes, batch_size, 5).indices(j, i) for j, i in zip(agents, numbers, strict=True)]
        np.testing.assert_array_equal(used.together(agents, numbers), np.concatenate([[], *each]))


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**40 + 3])
def test_an_order_is_numpys_permutation_of_seed_agent_and_epoch(seed):
    for agent, epoch in ((0, 0), (2, 1)):
        expected = np.random.default_rng([seed, agent, epoch, int.from_bytes(b"batc", "big")]).permutation(9)
        np.testing.assert_array_equal(Batches([9, 9, 9], 9, seed).indices(agent, epoch), expected)


@pytest.mark.parametrize(("sizes", "batch_size", "seed"), [([], 1, 0), ([3, 0], 1, 0), ([3], 0, 0), ([3], 1, -1)])
def test_impossible_batches_are_refused(sizes, batch_size, seed):
    with pytest.raises(ValueError, match="Batches need"):
        Batches(sizes, batch_size, seed)


@pytest.mark.parametrize(("agent", "i"), [(2, 0), (-1, 0), (0, -1)])
def test_batches_of_nobody_are_refused(agent, i):
    with pytest.raises(IndexError, match="agents 0 to 1"):
        Batches([3, 3], 1, 0).indices(agent, i)
