"""Let one of three processes send what it should not, in each of many ways: the others must name it and end.

    python proofs/hostile_peers.py --out docs/reliability/hostile_peers.json

The processes train a small model by CGA on a ring, and average their models after each step. In each mode rank 1 does
one thing wrong. A lie must end both others with status 3 and a sentence with rank 1 in it, never with a traceback; a
process that is only slow must not be taken for a lost one. In the last mode the same happens to `crossgrad run`: what
it saved must be there, and `crossgrad resume` must end with the bits of a run that nobody disturbed.
"""

import argparse
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # an optimiser would import it in every process
from ports import free_port
from report import finish, say
from states import differences, final_state

import crossgrad
from crossgrad._cli import main as crossgrad_main
from crossgrad._network import wire
from crossgrad._network.gloo import GlooTransport
from crossgrad._processes.collectives import FIRST_TAG
from crossgrad._processes.group import Group

ROOT = Path(__file__).parents[1]
PROCESSES, LIAR, STEP = 3, 1, 2  # the lie is told in this step
PATIENCE = 120.0  # seconds after which a mode counts as hung
LOST_AFTER, SLOW_SECONDS = 8.0, 10.0
pack, send, vote = wire.pack_message, GlooTransport.send, Group.votes

MODES = {  # what at least one of the others must say
    "model with NaN": r"rank 1 sent the model of agent 1 in step 2 with numbers that are not finite",
    "model with inf": r"rank 1 sent the model of agent 1 in step 2 with numbers that are not finite",
    "short": r"rank 1 sent only a part of the model of agent 1 in step 2",
    "long": r"longer than expected. It waited for: .*the model of agent 1 in step 2 from rank 1",
    "wrong kind": r"rank 1 was to send the model of agent 1 in step 2, but what arrived has kind",
    "wrong step": r"rank 1 was to send the model of agent 1 in step 2, but what arrived has step 7 instead of 2",
    "wrong agent": r"rank 1 was to send the model of agent 1 in step 2, but what arrived has agent 0 instead of 1",
    "replay": r"rank 1 was to send the model of agent 1 in step 2, but what arrived has step 1 instead of 2",
    "noise": r"rank 1 was to send the model of agent 1 in step 2, but what arrived has format",
    "huge count": r"rank 1 announced 1099511627776 rows",
    "a row too many": r"rank 1 announced 2 rows of . numbers of 8 bytes .*; 1 rows",
    "short table": r"rank 1 sent only a part of the rows of exchange",
    "vote of NaN": r"rank 1 .*sent \[nan.* must be numbers",
    "sum with NaN": r"rank 1 sent a sum of models with a number of inf",
    "sum with 3e38": r"rank 1 sent a sum of models with a number of 3e\+38",
    "silent": r"rank 1 \(agent 1\) has not been heard of for 8 seconds",
    "hanging": r"rank 1 ends: it hangs in step 2(.|\n)*rank 1 \(agent 1\) has been lost",
    "killed": r"rank 1 \(agent 1\) has been lost",
    "slow": r"",
}


def lie(mode: str) -> None:
    """Let this process do one thing wrong."""
    sent: dict[int, torch.Tensor] = {}

    def wrong_pack(message: Any, label: wire.Label, parts: Any) -> None:
        now = label.kind == "model" and label.step == STEP
        if now and mode == "wrong kind":
            label = label._replace(kind="gradient")
        if now and mode == "wrong step":
            label = label._replace(step=7)
        if now and mode == "wrong agent":
            label = label._replace(agent=0)
        pack(message, label, parts)
        if label.kind == "model":
            sent[label.step] = message.clone()
        if now and mode in ("model with NaN", "model with inf"):
            wire.parts_of(message, parts)[0][0] = float(mode.split()[-1])
        if now and mode == "noise":
            message.copy_(torch.randint(256, message.shape, dtype=torch.uint8))
        if now and mode == "replay":
            message.copy_(sent[STEP - 1])
        if label.kind == "sizes" and label.step > 8 and mode == "huge count":
            wire.parts_of(message, parts)[0][0] = 2**40
        if label.kind == "sizes" and label.step > 8 and mode == "a row too many":
            wire.parts_of(message, parts)[0][0] += 1
        if label.kind == "sum" and mode.startswith("sum with"):
            wire.parts_of(message, parts)[0].view(torch.float32)[0] = float(mode.split()[-1])

    def wrong_send(transport: Any, message: torch.Tensor, rank: int, tag: int) -> Any:
        now = tag < FIRST_TAG and STEP in sent
        if now and mode == "short":
            message = message[:72]
        if now and mode == "long":
            message = torch.cat([message, message])
        if mode == "short table" and tag == FIRST_TAG + 1:
            message = message[:-4]
        if now and mode == "silent":
            os.kill(os.getpid(), signal.SIGSTOP)
        if now and mode == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if now and mode == "hanging":
            time.sleep(10 * PATIENCE)
        if now and mode == "slow":
            sent.pop(STEP)
            time.sleep(SLOW_SECONDS)
        return send(transport, message, rank, tag)

    def wrong_vote(group: Group, *numbers: float, **options: Any) -> Any:
        return vote(group, *([float("nan")] * len(numbers) if mode == "vote of NaN" else numbers), **options)

    wire.pack_message, GlooTransport.send, Group.votes = wrong_pack, wrong_send, wrong_vote  # type: ignore[method-assign]


def train() -> None:
    """Three agents on a ring."""
    with crossgrad.process_group(lost_after=LOST_AFTER) as group:
        torch.manual_seed(0)
        inputs, labels, model = torch.randn(8, 3), torch.arange(8) % 2, torch.nn.Linear(3, 2)
        opt = crossgrad.optim.CGA(model, graph=crossgrad.ring(group.processes), lr=0.1, momentum=0.9)

        def closure() -> torch.Tensor:
            opt.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            return loss

        for _ in range(5):
            opt.step(closure)
            group.averaged(model)


def fork(work: Callable[[], object], mode: str, rank: int, port: int, log: Path) -> int:
    process = os.fork()
    if process:
        return process
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(PROCESSES)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(PROCESSES), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    status = 1
    try:
        if rank == LIAR:
            lie(mode)
        work()
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(status)


def fork_all(work: Callable[[], object], mode: str, log: Path) -> list[int]:
    port = free_port()
    return [fork(work, mode, rank, port, log) for rank in range(PROCESSES)]


def ends(processes: list[int]) -> list[int]:
    """Their statuses; a liar that is stopped, and whatever hangs, is killed."""
    until, statuses = time.monotonic() + PATIENCE, dict.fromkeys(processes, None)
    while None in statuses.values():
        for process in (process for process, status in statuses.items() if status is None):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                statuses[process] = os.waitstatus_to_exitcode(status)
        left = [process for process, status in statuses.items() if status is None]
        if time.monotonic() > until or left == [processes[LIAR]]:
            time.sleep(1)
            for process in left:
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    return [int(status or 0) for status in statuses.values()]


def problem_of(mode: str, statuses: list[int], said: str) -> str:
    """What is wrong with how the processes ended; empty if nothing is."""
    expected = 0 if mode == "slow" else 3
    others = [status for rank, status in enumerate(statuses) if rank != LIAR]
    if any(status != expected for status in others):
        return f"the others ended with {others}: {said[-500:]}"
    if not re.search(MODES[mode], said):
        return f"the sender was not named: {said[-500:]}"
    return "a traceback" if "Traceback" in said else ""


def lie_at_an_evaluation(folder: Path) -> str:
    """A run in which the sum of models is a lie at the second evaluation; it is resumed. What is wrong."""
    settings = ["agents=3", "training.steps=12", "training.evaluate_every=4", "training.deterministic=true", "-q"]
    settings += ["--keep-state", "--checkpoint-every=0", f"--lost-after={LOST_AFTER}"]
    run = ["run", str(ROOT / "examples" / "digits-ring.toml"), *settings]
    log = folder / "run"

    def command(*arguments: str, lie_after: int | None = None) -> Callable[[], None]:
        def work() -> None:
            if lie_after is not None and os.environ["RANK"] == str(LIAR):
                sums: list[int] = []

                def wrong(message: Any, label: wire.Label, parts: Any) -> None:
                    pack(message, label, parts)
                    if label.kind == "sum":
                        sums.append(label.step)
                        if len(sums) > lie_after:
                            wire.parts_of(message, parts)[0].view(torch.float32)[0] = float("nan")

                wire.pack_message = wrong
            sys.argv = ["crossgrad", *arguments]
            crossgrad_main()

        return work

    calm = ends(fork_all(command(*run, f"--out={folder / 'calm'}"), "", log))
    disturbed = ends(fork_all(command(*run, f"--out={folder / 'lied'}", lie_after=1), "", log))
    if calm != [0] * PROCESSES or disturbed[0] != 3 or disturbed[2] != 3:
        return f"statuses {calm}, {disturbed}: {log.read_text()[-800:]}"
    (lied,) = (folder / "lied").iterdir()
    if not any((lied / "checkpoints").iterdir()):
        return "nothing was saved"
    resumed = ends(fork_all(command("resume", str(lied), *settings[4:]), "", log))
    if resumed != [0] * PROCESSES:
        return f"resume ended with {resumed}: {log.read_text()[-800:]}"
    different = differences(final_state(next((folder / "calm").iterdir())), final_state(lied))
    return f"other bits: {different[:3]}" if different else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES, action="append", help="only this one; may be repeated")
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    modes, problems = options.mode or list(MODES), []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        for at in range(0, len(modes), 6):  # as many at once
            part = modes[at : at + 6]
            say(f"{', '.join(part)}: {time.monotonic() - began:.0f} s")
            running = {mode: fork_all(train, mode, Path(name) / mode) for mode in part}
            for mode, processes in running.items():
                if problem := problem_of(mode, ends(processes), (Path(name) / mode).read_text()):
                    problems.append(f"{mode}: {problem}")
                    say(problems[-1])
        if not options.mode:
            modes.append("a lie at an evaluation of `crossgrad run`, resumed")
            if problem := lie_at_an_evaluation(Path(name)):
                problems.append(f"{modes[-1]}: {problem}")
    result = {"modes": modes, "held": len(modes) - len(problems), "problems": problems}
    finish(result | {"seconds": round(time.monotonic() - began)}, options.out, problems)


if __name__ == "__main__":
    main()
