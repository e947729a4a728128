"""Ten steps of CGA with a model of 0.6 MB: bytes that loopback says it has sent, and bytes that were counted."""

import faulthandler
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import crossgrad
from crossgrad.data import Samples

faulthandler.dump_traceback_later(240, exit=True)
torch.set_num_threads(1)


def sent_by_loopback() -> int:
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


with crossgrad.process_group() as group:
    samples = Samples(torch.randn(8, 64), torch.arange(8) % 10)
    model = nn.Sequential(nn.Linear(64, 2000), nn.ReLU(), nn.Linear(2000, 10))
    settings = crossgrad.TrainingSettings(crossgrad.Constant(0.01), batch_size=2, steps=11)
    graph = crossgrad.ring(group.processes)
    training = crossgrad.Training(model, [samples], crossgrad.CGA(), graph, settings, group=group)
    training.step()  # connections are made
    dist.barrier()
    wire, counted = sent_by_loopback(), training.traffic.total
    dist.barrier()
    for _ in range(10):
        training.step()
    dist.barrier()
    wire, counted = sent_by_loopback() - wire, training.traffic.total - counted
    everybody = group.gather(torch.tensor([[counted]]))
    if group.is_rank_0:
        print(wire, int(everybody.sum()))
