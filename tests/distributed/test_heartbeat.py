"""A process that is silent for longer than the others wait is named; one that has left, or beats, is not."""

import torch.distributed as dist

from crossgrad._processes import heartbeat
from crossgrad._processes.heartbeat import Heartbeat


class TwoEach:
    """Agents of ranks, two each."""

    def holding(self, rank: int) -> str:
        return f"agents {2 * rank} to {2 * rank + 1}"


def test_only_the_process_that_has_stopped_is_reported(monkeypatch):
    said = []

    def end(rank, why):
        said.append((rank, why))
        heartbeats[rank].stopped.set()  # ends the thread, as it would end the process

    monkeypatch.setattr(heartbeat, "end", end)
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.02)
    store = dist.HashStore()
    heartbeats = [Heartbeat(store, rank, 4, 1.0 if rank == 0 else 60.0) for rank in range(4)]
    first, at_work, _, gone = heartbeats  # the third has met the others, and never beats again
    first.agents = TwoEach()
    for each in (at_work, gone, first):
        each.start()
    gone.leave()
    first.thread.join(30)
    at_work.stop()
    assert said == [(0, "rank 2 (agents 4 to 5) has not been heard of for 1 seconds.")]
