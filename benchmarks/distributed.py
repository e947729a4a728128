"""How well several processes share the work, as ratios measured in one run. `make bench` runs it.

1. a step of 2 processes with one thread each against 1 process with two threads, and with one: CGA, the paper's CNN at
   28x28, 4 agents on a ring; and the same of bare passes, which is what the machine allows;
2. the share of communication that is hidden behind computation in such a step with batches of 32, of the step in which
   processes waited least: in the others one also waits for the other's computation;
3. the exchange between neighbours against a raw TCP socket on loopback, with messages of the CNN's size.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import keeping
import torch
from bare import bare

from crossgrad import graphs, models
from crossgrad._network.context import NetworkContext
from crossgrad._network.gloo import GlooMessage
from crossgrad._network.messages import RowMessages
from crossgrad._network.traffic import Traffic
from crossgrad._processes.group import SingleProcess
from crossgrad._processes.torchrun import process_group
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.trainer import Training
from crossgrad.algorithms import CGA
from crossgrad.data import Samples
from crossgrad.models.buffers import Buffers

AGENTS, WARM_UP = 4, 1
LARGE, SMALL = 128, 32  # batches
STEPS = {LARGE: 3, SMALL: 9}
NUMBERS = 2_168_362  # of the CNN on 3x32x32: messages of 8.7 MB
MESSAGES = 30


def training(group, batch: int) -> Training:
    """Random images: what they show does not matter for the time a step takes."""
    generator = torch.Generator().manual_seed(0)
    shard = group.shard(AGENTS)
    own = [
        Samples(torch.randn(batch, 1, 28, 28, generator=generator), torch.arange(batch) % 10) for _ in range(len(shard))
    ]
    module = models.build(models.PaperCNN(), (1, 28, 28), 10, seed=0)
    settings = TrainingSettings(batch_size=batch, steps=1000)
    return Training(module, own, CGA(0.9), graphs.ring(AGENTS), settings, group=group)


def step_times(group, threads: int, batch: int = LARGE) -> dict:
    """Seconds of each step, and of those the seconds that were spent waiting for messages."""
    torch.set_num_threads(threads)
    waited = 0.0
    original = GlooMessage.wait

    def timed(message: GlooMessage) -> bool:
        nonlocal waited
        began = time.perf_counter()
        there = original(message)
        waited += time.perf_counter() - began
        return there

    GlooMessage.wait = timed
    run = training(group, batch)
    steps, waits = [], []
    for number in range(WARM_UP + STEPS[batch]):
        waited, began = 0.0, time.perf_counter()
        run.step()
        if number >= WARM_UP:
            steps.append(time.perf_counter() - began)
            waits.append(waited)
    GlooMessage.wait = original
    passes = bare_passes(batch)
    return {
        "step": statistics.median(steps),
        "waiting": statistics.median(waits),
        "least waiting": min(waits),
        "alone": exchanges(group, run),
        "bare": passes,
    }


def bare_passes(batch: int) -> float:
    """Seconds of a bare pass; in two processes both are at it at the same time."""
    module, images = models.build(models.PaperCNN(), (1, 28, 28), 10, seed=0), torch.randn(batch, 1, 28, 28)
    return statistics.median([bare(module, images) for _ in range(8)][1:])


def exchanges(group, run: Training) -> float:
    """Seconds that a step's messages take when nothing else is done: models there, as many gradients back."""
    if group.processes == 1:
        return 0.0
    net = run._network()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        RowMessages(net, "model", [run.state.x]).wait()
        RowMessages(net, "gradient", [run.state.x]).wait()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def exchange_rate(group) -> float:
    """MB per second that one of two neighbours sends while it receives as much."""
    graph = graphs.ring(2)
    shard = group.shard(2)
    buffers = Buffers.of(torch.nn.Linear(1, 1), 1)
    setting = NetworkContext(shard, graph, Traffic(graph), buffers, 0)
    x = torch.randn(1, NUMBERS)
    net = group.network(graph, setting, 0)
    RowMessages(net, "model", [x]).wait()
    began = time.perf_counter()
    for _ in range(MESSAGES):
        RowMessages(net, "model", [x]).wait()
    return MESSAGES * x.nbytes / (time.perf_counter() - began) / 1e6


def raw_rate(rank: int, port: int) -> float:
    """The same with one plain TCP connection and two threads."""
    size = NUMBERS * 4
    if rank == 0:
        with socket.create_server(("127.0.0.1", port)) as server:
            connection, _ = server.accept()
    else:
        deadline = time.monotonic() + 20
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    out, into = bytes(size), memoryview(bytearray(size))

    def receive() -> None:
        got = 0
        while got < size:
            got += connection.recv_into(into[got:])

    def exchange() -> None:
        sender = threading.Thread(target=connection.sendall, args=(out,))
        sender.start()
        receive()
        sender.join()

    exchange()
    began = time.perf_counter()
    for _ in range(MESSAGES):
        exchange()
    seconds = time.perf_counter() - began
    connection.close()
    return MESSAGES * size / seconds / 1e6


def worker(what: str, out: Path) -> None:
    with process_group() as group:
        if what != "rates":
            result = step_times(group, threads=1, batch=int(what))
        else:
            ours = exchange_rate(group)
            result = {"ours": ours, "raw": raw_rate(group.rank, int(os.environ["RAW_PORT"]))}
        if group.is_rank_0:
            out.write_text(json.dumps(result))


def launch(what: str, processes: int) -> dict:
    """One torchrun; what its is_rank_0 measured."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        environment = os.environ | {"RAW_PORT": str(port), "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, __file__, "--worker", what, "--out", str(out)], check=True, env=environment)
        return json.loads(out.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.out)
        return
    print("steps of one process ...", flush=True)
    slow, one = step_times(SingleProcess(), threads=1), step_times(SingleProcess(), threads=2)
    print("steps of two processes, with large batches and with small ones ...", flush=True)
    two, small = launch(str(LARGE), 2), launch(str(SMALL), 2)
    print("exchange of messages ...", flush=True)
    rates = launch("rates", 2)
    result = {
        "step, 1 process x 2 threads, s": one["step"],
        "step, 2 processes x 1 thread, s": two["step"],
        "step, 1 process x 1 thread, s": slow["step"],
        "speed of 2 x 1 over 1 x 2": one["step"] / two["step"],
        "speed of 2 x 1 over 1 x 1": slow["step"] / two["step"],
        "speed of 1 x 2 over 1 x 1": slow["step"] / one["step"],
        "speed of bare passes, 2 x 1 over 1 x 1": 2 * slow["bare"] / two["bare"],
        "communication hidden behind computation": 1 - small["least waiting"] / small["alone"],
        "waiting, share of a step": small["waiting"] / small["step"],
        "exchange, MB/s each way": rates["ours"],
        "raw TCP, MB/s each way": rates["raw"],
        "exchange over raw TCP": rates["ours"] / rates["raw"],
    }
    named = keeping.machine()
    rows = [[name, f"{value:.3g}"] for name, value in result.items()]
    text = f"On {named}; made by `python benchmarks/distributed.py`.\n\n"
    text += keeping.table(["measured", "value"], rows)
    keeping.keep("distributed", {"machine": named, **result}, text)


if __name__ == "__main__":
    main()
