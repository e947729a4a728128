"""often.py RUNS PROCESSES COMMAND...: run `crossgrad COMMAND` again and again, and print the status of every process.

Each process is forked from one that has imported everything already, and ends as any Python does.
"""

import os
import sys
import time

import torch
import torch._dynamo  # vmap would import it in every process

import crossgrad.cli
import crossgrad.cli.run
import crossgrad.data.datasets
import crossgrad.process
from crossgrad.data import load

PATIENCE = 60.0  # seconds of one run


def fork(rank: int, processes: int, port: int, command: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    sys.argv = ["crossgrad", *command]
    crossgrad.cli.main()
    sys.exit(0)


def ends(children: list[int]) -> list[int | None]:
    """The status of each; None for one that hung."""
    found: dict[int, int] = {}
    deadline = time.monotonic() + PATIENCE
    while len(found) < len(children) and time.monotonic() < deadline:
        for child in set(children) - set(found):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                found[child] = os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    for child in set(children) - set(found):
        os.kill(child, 9)
        os.waitpid(child, 0)
    return [found.get(child) for child in children]


if __name__ == "__main__":
    torch.set_num_threads(1)
    load("digits")
    runs, processes, *command = sys.argv[1:]
    first_port = int(os.environ["PORT"])
    for run in range(int(runs)):
        children = [fork(rank, int(processes), first_port + run, command) for rank in range(int(processes))]
        print(*ends(children), flush=True)
