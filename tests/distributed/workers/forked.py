"""forked.py COUNTS TARGET...: run TARGET in as many processes as COUNTS says, e.g. 3,3,10; 0 is without torchrun.

TARGET is `crossgrad ...` or a script. The processes are forked from one that has imported everything already, and end
as any Python does; the status of each is printed, a line for each of COUNTS. Ctrl-C is left to them. They are in the
network namespace that the variable NETWORK_NAMESPACE names. With AGENT_STORE they meet in a store of this process, as
in one of torchrun's, and else in one of rank 0.
"""

import ctypes
import os
import runpy
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # vmap would import it in every process
from torch.distributed import TCPStore

import crossgrad._cli
import crossgrad._cli.execution
import crossgrad.optim
from crossgrad.data import load

sys.path.insert(0, str(Path(__file__).parents[2] / "helpers"))

from fork_server import to_the_end
from ports import free_port

PATIENCE = 200.0  # seconds of one run
CLONE_NEWNET = 0x40000000
stores: list[TCPStore] = []  # they live as long as this process


def fork(environment: dict[str, str], target: list[str]) -> int:
    child = os.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ |= environment
        to_the_end(execute, target)
    return child


def execute(target: list[str]) -> None:
    sys.argv = target
    if target[0] == "crossgrad":
        crossgrad._cli.main()
    else:
        sys.path.insert(0, os.path.dirname(target[0]))
        runpy.run_path(target[0], run_name="__main__")


def fork_all(processes: int, target: list[str]) -> list[int]:
    if processes == 0:
        return [fork({}, target)]
    port = free_port()
    together = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if "AGENT_STORE" in os.environ:
        together["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    children = [fork(together | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, target) for rank in range(processes)]
    if "AGENT_STORE" in os.environ:
        stores.append(TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False))
    return children


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


def enter(namespace: str) -> None:
    with open(f"/run/netns/{namespace}") as place:
        if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "NETWORK_NAMESPACE" in os.environ:
        enter(os.environ["NETWORK_NAMESPACE"])
    load("digits")
    counts, *target = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for processes in map(int, counts.split(",")):
        print(*ends(fork_all(processes, target)), flush=True)
