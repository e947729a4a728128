"""Processes of which one sends something else than its neighbours expect: what all of them said, for each case."""

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

import torch
import torch._dynamo  # an optimiser would import it in every process

import crossgrad
from crossgrad._network import wire
from crossgrad._network.gloo import GlooTransport
from crossgrad._processes.collectives import FIRST_TAG

sys.path.insert(0, str(Path(__file__).parents[2] / "helpers"))

from ports import free_port

PROCESSES = 3
pack, send = wire.pack_message, GlooTransport.send


def train(case: str) -> None:
    """Three agents on a ring; step 2 of agent 1 is not what it should be."""

    def wrong(message, label, parts):
        mine = label.agent == 1 and label.step == 2
        if mine and case == "step":
            label = label._replace(step=1)
        pack(message, label, parts)
        if mine and case == "nan":
            wire.parts_of(message, parts)[0][0] = float("nan")
        if mine and case == "noise":
            message.copy_(torch.randint(256, message.shape, dtype=torch.uint8))

    def cut_off(transport, message, rank, tag):
        between_agents = tag < FIRST_TAG
        cut = case == "short" and transport.rank == 1 and between_agents
        return send(transport, message[:72] if cut else message, rank, tag)

    wire.pack_message, GlooTransport.send = wrong, cut_off
    with crossgrad.process_group() as group:
        torch.manual_seed(group.rank)
        inputs, labels, model = torch.randn(8, 3), torch.arange(8) % 2, torch.nn.Linear(3, 2)
        if case == "loss" and group.rank == 1:
            inputs[0, 0] = float("nan")
        opt = crossgrad.optim.CGA(model, graph=crossgrad.ring(group.processes), lr=0.1, momentum=0.9)

        def closure():
            opt.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            return loss

        for _ in range(5):
            opt.step(closure)


def fork(case: str, rank: int, port: int, log: Path) -> int:
    process = os.fork()
    if process:
        return process
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(PROCESSES)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(PROCESSES), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    status = 1
    try:
        train(case)
        status = 0
    except FloatingPointError as error:
        print(error, file=sys.stderr, flush=True)
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    torch.set_num_threads(1)
    running, said = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for case in sys.argv[1:]:
            port = free_port()
            running[case] = [fork(case, rank, port, Path(folder) / case) for rank in range(PROCESSES)]
        for case, processes in running.items():
            statuses = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
            said[case] = {"statuses": statuses, "err": (Path(folder) / case).read_text()}
    print(json.dumps(said))
