"""reasons.py HOW ARGUMENTS...: the command line, of which rank 0 stops after step 3, or rank 1 fails.

HOW is stop; data: agent 3 has other data; full: rank 1's disk is full at first; memory: rank 1 has none left in step 3.
"""

import errno
import os
import signal
import sys

from crossgrad._cli import main
from crossgrad._runs import runner
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._training.trainer import Training

how, sys.argv = sys.argv[1], ["crossgrad", *sys.argv[2:]]
step, begin, save = Training.step, Training.__init__, Checkpoints.save
full = ["at the first attempt"] if os.environ["RANK"] == "1" else []


def and_stop(training: Training) -> None:
    step(training)
    if training.step_number == 3 and os.environ["RANK"] == "0":
        os.kill(os.getpid(), signal.SIGTERM)


def other_data(training: Training, *arguments: object, **options: object) -> None:
    begin(training, *arguments, **options)
    if os.environ["RANK"] == "1":
        training.agents[1].inputs[-1, -1] += 1


def without_memory(training: Training) -> None:
    step(training)
    if training.step_number == 3 and os.environ["RANK"] == "1":
        raise MemoryError


def on_a_full_disk(checkpoints: Checkpoints, *arguments: object) -> None:
    if full:
        full.pop()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "the disk of rank 1")
    save(checkpoints, *arguments)


if how == "stop":
    Training.step = and_stop
elif how == "data":
    Training.__init__ = other_data
elif how == "full":
    runner.RETRY_SECONDS = 0.05
    Checkpoints.save = on_a_full_disk
elif how == "memory":
    Training.step = without_memory
main()
