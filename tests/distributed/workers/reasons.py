"""reasons.py HOW ARGUMENTS...: the command line, of which rank 1 stops after step 3, or has other data for agent 3."""

import os
import signal
import sys

from crossgrad._cli import main
from crossgrad._training.trainer import Training

how, sys.argv = sys.argv[1], ["crossgrad", *sys.argv[2:]]
step, begin = Training.step, Training.__init__


def and_stop(training: Training) -> None:
    step(training)
    if training.step_number == 3 and os.environ["RANK"] == "0":
        os.kill(os.getpid(), signal.SIGTERM)


def other_data(training: Training, *arguments: object, **options: object) -> None:
    begin(training, *arguments, **options)
    if os.environ["RANK"] == "1":
        training.agents[1].inputs[-1, -1] += 1


if how == "stop":
    Training.step = and_stop
elif how == "data":
    Training.__init__ = other_data
main()
