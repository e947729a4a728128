"""Processes that torchrun starts anew do not take what an earlier attempt left in its store for their own."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from crossgrad._processes.attempts import name_of_attempt


def test_two_nodes_of_which_one_counted_no_restart_hung_after_a_restart(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # in all attempts
    store, names = dist.HashStore(), set()
    for attempt in range(3):
        with pytest.raises(TimeoutError):  # an attempt of which only one process came so far
            name_of_attempt(store, 0 if attempt == 2 else 3, 4, 0.1)
        with ThreadPoolExecutor(4) as threads:
            found = set(threads.map(lambda rank: name_of_attempt(store, rank, 4, 30.0), (2, 3, 0, 1)))
        assert len(found) == 1
        names |= found
    assert len(names) == 3
