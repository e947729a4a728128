"""Compare the simulated time of a step with real ones: processes in network namespaces with links as described.

    sudo python proofs/simulated_time.py --out docs/reliability/simulated_time.json

Every agent is a process in a namespace of its own; a switch in user space (wire_delay.c, made with the C compiler `cc`)
gives each a bandwidth and a latency. A gradient sleeps for as long as the machine is said to take, so that a few cores
are enough for all agents. What a step costs besides its gradients is measured first, for each algorithm and graph: on
links of 100 Mbit/s without latency, with gradients that take no time. `compute.step` is then as much. Needs root.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from itertools import pairwise
from math import prod
from pathlib import Path
from statistics import median

from namespaces import CLONE_NEWNET
from torch import nn, set_num_threads

from crossgrad import __version__, register
from crossgrad._cli import execution, progress  # noqa: F401 - imported before the fork
from crossgrad._cli import main as crossgrad_main
from crossgrad.experiments import parse
from crossgrad.records import read_records

AGENTS, WINDOW, STEPS = 5, 4, 20  # agents; steps over which time is taken, and in all
TOLERANCE = 0.15
FAST = (100, 0)  # Mbit/s and ms: as fast as the switch can be without holding processes up itself
FILE = f"""
agents = {AGENTS}
partition = "iid"
training = {{ steps = {STEPS}, evaluate_every = {WINDOW}, batch_size = 8, deterministic = true, threads = 1 }}
schedule = {{ name = "constant", lr = 0.001 }}
"""
CASES = [  # algorithm, graph, Mbit/s, ms, rounds, gradient in ms; the first ones last long enough for a busy machine
    ("dpsgd", "ring", 20, 100, 1, 300),
    ("cga", "ring", 20, 100, 1, 300),
    ("dpsgd", "star", 20, 100, 1, 300),
    ("edm", "ring", 20, 100, 2, 300),
    ("choco", "ring", 20, 100, 1, 300),
    ("sgp", "exponential", 20, 100, 1, 300),
    ("dpsgd", "ring", 100, 20, 1, 30),
    ("cga", "ring", 100, 20, 1, 30),
    ("dpsgd", "ring", 20, 5, 1, 30),
    ("cga", "ring", 20, 5, 1, 30),
]


class Sleeping(nn.Sequential):
    """Layers whose passes in training take as long as given."""

    seconds = 0.0

    def forward(self, inputs):
        if self.training:
            time.sleep(self.seconds)
        return super().forward(inputs)


@register("model", "sleeping")
def sleeping(shape, classes, width: int = 1000, seconds: float = 0.03):
    made = Sleeping(nn.Flatten(), nn.Linear(prod(shape), width), nn.ReLU(), nn.Linear(width, classes))
    made.seconds = seconds
    return made


def in_namespace(name, *words):
    subprocess.run(["ip", "netns", "exec", name, *words], check=True, capture_output=True)


class Switch:
    """Namespaces with a port each; `with` removes them."""

    def __init__(self, program, mbit, ms):
        self.words = [str(program), str(mbit), str(ms)]
        self.names = [f"crossgrad-{os.getpid()}-{agent}" for agent in range(AGENTS)]

    def __enter__(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        self.process = subprocess.Popen([*self.words, *self.names], stdout=subprocess.PIPE)
        self.process.stdout.readline()
        for number, name in enumerate(self.names):
            in_namespace(name, "ip", "addr", "add", f"10.98.0.{number + 1}/24", "dev", "port")
            in_namespace(name, "ip", "link", "set", "port", "up", "mtu", "1500")
            in_namespace(name, "ip", "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def agent(rank, namespace, file, folder):
    """Fork a process that runs one agent in a namespace."""
    if process := os.fork():
        return process
    status = 1
    try:  # nothing of the parent's clean-up may run here
        log = os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        with open(f"/var/run/netns/{namespace}") as handle:
            if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        world = {"RANK": rank, "WORLD_SIZE": AGENTS, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": AGENTS}
        world |= {"MASTER_ADDR": "10.98.0.1", "MASTER_PORT": 29511, "GLOO_SOCKET_IFNAME": "port"}
        os.environ.update({key: str(value) for key, value in world.items()})
        set_num_threads(1)
        sys.argv = ["crossgrad", "run", str(file), "-q", "--out", str(folder)]
        crossgrad_main()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def per_step(records, quantity):
    """Seconds of a step in every window between two evaluations, without the first, in which connections are made."""
    return [
        (getattr(after, quantity) - getattr(before, quantity)) / (after.step - before.step)
        for before, after in pairwise(records[1:])
    ]


def overhead(program, folder, algorithm, graph, rounds):
    """Milliseconds that a real step takes beyond the simulated one without latency, where gradients take no time."""
    records = run(program, folder, algorithm, graph, *FAST, rounds, 0, 0)
    beyond = min(per_step(records, "seconds")) - median(per_step(records, "simulated_seconds"))
    return max(0.0, round(1000 * beyond, 1))


def measure(program, folder, algorithm, graph, mbit, ms, rounds, gradient, step):
    records = run(program, folder, algorithm, graph, mbit, ms, rounds, gradient, step)
    windows, simulated = per_step(records, "seconds"), median(per_step(records, "simulated_seconds"))
    real = min(windows)  # simulated steps all take as long; whatever else the machine does only adds to real ones
    found = {"algorithm": algorithm, "graph": graph, "Mbit/s": mbit, "latency, ms": ms, "rounds": rounds}
    found |= {"gradient, ms": gradient, "step, ms": step}
    found |= {"real, s": round(real, 4), "median of windows, s": round(median(windows), 4)}
    found |= {"simulated, s": round(simulated, 4), "ratio": round(simulated / real, 3)}
    print(found, flush=True)
    return found


def run(program, folder, algorithm, graph, mbit, ms, rounds, gradient, step):
    """The records of a real run, each with its simulated time, too."""
    text = f'{FILE}algorithm = "{algorithm}"\ngraph = "{graph}"\n'
    text += f'links = {{ bandwidth = "{mbit} Mbit/s", latency = "{ms} ms" }}\n'
    text += f'model = {{ name = "sleeping", seconds = {gradient / 1000} }}\n'
    text += f'compute = {{ gradient = "{gradient} ms", step = "{step} ms" }}\n'
    text += f"gossip = {{ rounds = {rounds} }}\n" if rounds > 1 else ""
    parse(text)
    name = f"{algorithm}-{graph}-{mbit}-{ms}-{rounds}-{gradient}"
    file, out = folder / f"{name}.toml", folder / name
    file.write_text(text)
    with Switch(program, mbit, ms) as switch:
        processes = [agent(rank, space, file, out) for rank, space in enumerate(switch.names)]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    if any(statuses):
        sys.exit(f"{name}: the processes ended with {statuses}; {Path(f'{out}.log').read_text()[-2000:]}")
    return read_records(next(out.rglob("records.jsonl")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases", help="only some, such as 0-5; the others stay in the file")
    options = parser.parse_args()
    first, last = map(int, options.cases.split("-")) if options.cases else (0, len(CASES) - 1)
    keys = ("algorithm", "graph", "Mbit/s", "latency, ms", "rounds")
    before = (
        json.loads(options.out.read_text())["cases"] if options.cases and options.out and options.out.exists() else []
    )
    kept = {tuple(case[key] for key in keys): case for case in before}
    with tempfile.TemporaryDirectory() as name:
        program = Path(name, "wire_delay")
        source = Path(__file__).with_name("wire_delay.c")
        subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
        steps = {}
        for algorithm, graph, mbit, ms, rounds, gradient in CASES[first : last + 1]:
            kind = (algorithm, graph, rounds)
            if kind not in steps:
                steps[kind] = overhead(program, Path(name), *kind)
            case = measure(program, Path(name), algorithm, graph, mbit, ms, rounds, gradient, steps[kind])
            kept[algorithm, graph, mbit, ms, rounds] = case
    found = [kept[case[:5]] for case in CASES if case[:5] in kept]
    within = sum(abs(case["ratio"] - 1) <= TOLERANCE for case in found)
    result = {
        "version": __version__,
        "agents": AGENTS,
        "steps of a window": WINDOW,
        "windows": STEPS // WINDOW - 1,
    }
    result |= {"tolerance": TOLERANCE, "within": within, "cases": found}
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")
    if within < len(found):
        sys.exit(f"{len(found) - within} of {len(found)} cases differ by more than {TOLERANCE:.0%}.")


if __name__ == "__main__":
    main()
