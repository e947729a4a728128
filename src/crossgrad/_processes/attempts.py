"""A name for each attempt of a launch that torchrun may restart, the same in all its processes.

Attempts share torchrun's store, and must not read what an earlier one left there. TORCHELASTIC_RESTART_COUNT does not
tell them apart: with several nodes, a node that restarts because another one did keeps its count.
"""

import os
import time
import uuid
from typing import Any

ATTEMPT_POLL_SECONDS = 0.05


def name_of_attempt(store: Any, rank: int, processes: int, patience: float) -> str:
    """Agree on a name that no earlier attempt had. Rank 0 makes it, and answers each process that asks for it.

    torchrun starts the processes of an attempt only when all of the one before have ended, so whoever answers a
    process belongs to the same attempt.

    Args:
        store: shared by all attempts of the launch.
        rank: the number of this process.
        processes: how many there are.
        patience: seconds after which a process that has not asked, or rank 0, counts as lost.

    Raises:
        TimeoutError: not all processes took part in time.
    """
    if os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") == "0":
        return "the only attempt"
    own, until = uuid.uuid4().hex, time.monotonic() + patience
    name, asking = f"attempt {own}", set(range(1, processes))
    if rank:
        store.set(f"asked by {rank}", own)
    while asking if rank == 0 else not store.check([f"answer to {own}"]):
        if time.monotonic() > until:
            raise TimeoutError
        for other in sorted(asking) if rank == 0 else ():
            if store.check([f"{name}: {other} knows it"]):
                asking.remove(other)
            elif store.check([f"asked by {other}"]):  # perhaps by a process of an earlier attempt, which ignores it
                store.set(f"answer to {store.get(f'asked by {other}').decode()}", name)
        time.sleep(ATTEMPT_POLL_SECONDS)
    if rank:
        name = store.get(f"answer to {own}").decode()
        store.set(f"{name}: {rank} knows it", "")
    return name
