"""The demo: what it writes agrees with what it says, and both with its records."""

import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from crossgrad._cli import demo_output
from crossgrad._cli.main import main
from crossgrad._report.curves import draw_comparison
from crossgrad.data import IID, ByClass
from crossgrad.experiments import comparison
from crossgrad.experiments.comparison import DEMO_METHODS, DEMO_SPLITS, DemoRun, Summary, conclusions, runs, summarise
from crossgrad.experiments.files import read

IID_DATA, ONE_CLASS = DEMO_SPLITS
WAIT = 110  # seconds for the demo, which takes ten on a machine that has nothing else to do


@pytest.fixture(scope="module")
def finished(tmp_path_factory, forks):
    """A small demo: what it printed, and its folder."""
    out = tmp_path_factory.mktemp("demo")
    command = ["-m", "crossgrad", "demo", "--steps", "5", "--seeds", "1", "--jobs", "1", "--out", out]
    ended = forks.run(command, timeout=WAIT, env={**os.environ, "COLUMNS": "80", "OMP_NUM_THREADS": "1"})
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    (folder,) = out.iterdir()
    return ended.stdout, folder


def last_records(folder: Path) -> dict[tuple[str, str], dict]:
    """The last record of each method and split."""
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return {(record["method"], record["split"]): record for record in lines}


@pytest.mark.timeout(120)
def test_the_demo_leaves_table_curves_records_and_experiments(finished):
    printed, folder = finished
    assert {path.name for path in folder.iterdir()} == {
        "table.md", "curves.png", "records.jsonl", "experiments", "versions.json"
    }  # fmt: skip
    picture = (folder / "curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", picture[16:24])
    assert 1000 < width < 3000
    assert 500 < height < 2000
    assert f"Curves: {folder / 'curves.png'}\n" in printed
    assert f"Table, records, settings: {folder} (" in printed

    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    steps_of: dict[DemoRun, list[int]] = {}
    for record in records:
        steps_of.setdefault(DemoRun(record["method"], record["split"], record["seed"]), []).append(record["step"])
    assert set(steps_of) == set(runs(1))
    assert all(steps == list(range(len(steps))) for steps in steps_of.values())

    experiments = {read(path).name: read(path) for path in (folder / "experiments").glob("*.toml")}
    assert len(experiments) == len(list((folder / "experiments").iterdir())) == len(DEMO_METHODS) * len(DEMO_SPLITS)
    for method, algorithm in DEMO_METHODS.items():
        assert experiments[f"{method}, {IID_DATA}"].algorithm == algorithm
        assert experiments[f"{method}, {IID_DATA}"].partition == IID()
        assert experiments[f"{method}, {ONE_CLASS}"].partition == ByClass()


def test_the_table_agrees_with_the_records(finished):
    printed, folder = finished
    last = last_records(folder)
    rows = [line.strip("| ").split(" | ") for line in (folder / "table.md").read_text().splitlines() if "|" in line]
    assert rows[0] == ["split", "method", "averaged", "mean agent", "worst agent", "MB/agent", "diverged"]
    assert [(method, split) for split, method, *_ in rows[2:]] == [(m, s) for s in DEMO_SPLITS for m in DEMO_METHODS]
    for split, method, averaged, mean_agent, worst_agent, megabytes, *diverged in rows[2:]:
        record = last[method, split]
        assert averaged == f"{100 * record['accuracy']:.1f} ± 0.0"
        assert mean_agent == f"{100 * mean(record['agent_accuracy']):.1f} ± 0.0"
        assert worst_agent == f"{100 * min(record['agent_accuracy']):.1f} ± 0.0"
        assert float(megabytes) == pytest.approx(record["bytes_sent"] / 10 / 1e6, abs=0.005)
        assert diverged == ([] if record["status"] == "ok" else ["1"])
        shared = printed[printed.index(f"\n{split} ") :].splitlines()
        line = next(line for line in shared if line.startswith(f"{method}  "))
        assert re.split(" {2,}", line.strip()) == [method, averaged, mean_agent, worst_agent, megabytes, *diverged]


def test_the_sentences_agree_with_the_records(finished):
    printed, folder = finished
    last = last_records(folder)

    def percent(method: str, metric: str, split: str = ONE_CLASS) -> float:
        return 100 * last[method, split][metric]

    first, second, third = [line[2:] for line in printed.splitlines() if line.startswith("- ")]
    assert [first, second, third] == [line for line in (folder / "table.md").read_text().splitlines() if "%" in line]

    fast = [percent(m, "mean_agent", IID_DATA) for m in DEMO_METHODS if m != "SGP" and not m.startswith("Swarm")]
    drops = {m: percent(m, "mean_agent", IID_DATA) - percent(m, "mean_agent") for m in DEMO_METHODS}
    least, most = min(drops, key=drops.get), max(drops, key=drops.get)
    assert f"bring the mean agent to {min(fast):.0f} to {max(fast):.0f} %;" in first
    assert f"it loses from {drops[least]:.0f} points ({least}) to {drops[most]:.0f} ({most})." in first

    for name, method in (("DPMSGD has", "DPMSGD"), ("CGA", "CGA (paper)")):
        both = (
            f"{percent(method, 'accuracy'):.0f} % averaged and {percent(method, 'mean_agent'):.0f} % for the mean agent"
        )
        assert f"{name} {both}" in second
    plain, paper = percent("mean cross-gradient", "mean_agent"), percent("CGA (paper)", "mean_agent")
    word = "more" if plain > paper else "less"
    assert f"gives the mean agent {word} than the QP of CGA ({plain:.0f} against {paper:.0f} %)." in second

    assert (
        f"cross-gradients: {percent('EDM', 'accuracy'):.0f} % averaged and {percent('EDM', 'mean_agent'):.0f} %"
        in third
    )
    sent = [last[method, ONE_CLASS]["bytes_sent"] / 10 / 1e6 for method in ("EDM", "CGA (paper)", "EDM, 4 bits")]
    assert f"for {sent[0]:.1f} MB sent per agent instead of CGA's {sent[1]:.1f};" in third
    assert f"the mean agent has {percent('EDM, 4 bits', 'mean_agent'):.0f} % for {sent[2]:.2f} MB." in third


def record(accuracy, agents, bytes_sent, status="ok"):
    return {
        "accuracy": accuracy, "mean_agent": mean(agents), "worst_agent": min(agents), "bytes_sent": bytes_sent,
        "bytes_by_agent": [bytes_sent // len(agents)] * len(agents), "status": status, "step": 0,
    }  # fmt: skip


def test_a_summary_is_the_mean_and_deviation_of_the_last_records():
    early = record(0.1, [0.0, 0.2], 0)
    results = {
        DemoRun("CGA (paper)", ONE_CLASS, 0): [early, record(0.5, [0.2, 0.4], 2_000_000)],
        DemoRun("CGA (paper)", ONE_CLASS, 1): [early, record(0.9, [0.6, 0.8], 4_000_000, "collapsed")],
        DemoRun("DPMSGD", IID_DATA, 0): [record(1.0, [1.0, 0.5], 500_000)],
    }
    summaries = summarise(results)
    assert list(summaries) == [("DPMSGD", IID_DATA), ("CGA (paper)", ONE_CLASS)]
    cga = summaries["CGA (paper)", ONE_CLASS]
    assert cga.averaged == pytest.approx((70.0, 20.0))
    assert cga.mean_agent == pytest.approx((50.0, 20.0))
    assert cga.worst_agent == pytest.approx((40.0, 20.0))
    assert cga.megabytes == pytest.approx(1.5)
    assert cga.diverged == 1
    assert summaries["DPMSGD", IID_DATA] == Summary((100.0, 0.0), (75.0, 0.0), (50.0, 0.0), 0.25, 0)


def test_the_sentences_are_those_of_the_numbers():
    summaries = {(method, IID_DATA): Summary((90, 0), (80, 0), (70, 0), 1.0, 0) for method in DEMO_METHODS}
    summaries |= {(method, ONE_CLASS): Summary((60, 0), (40, 0), (30, 0), 1.0, 0) for method in DEMO_METHODS}
    summaries["CGA (paper)", ONE_CLASS] = Summary((61, 0), (55, 0), (30, 0), 8.0, 0)
    summaries["EDM", ONE_CLASS] = Summary((88, 0), (78, 0), (30, 0), 4.0, 0)
    first, second, third = conclusions(summaries)
    assert "to 80 to 80 %; with one class per agent it loses from 2 points (EDM) to 40 (DPMSGD)." in first
    assert "DPMSGD has 60 % averaged and 40 % for the mean agent, CGA 61 % averaged and 55 %" in second
    assert "less than the QP of CGA (40 against 55 %)." in second
    assert "88 % averaged and 78 % for the mean agent, for 4.0 MB sent per agent instead of CGA's 8.0;" in third
    assert "with 4 bits per number the mean agent has 40 % for 1.00 MB." in third


def test_the_longest_table_fits_into_eighty_columns():
    longest = Summary((100.0, 10.1), (100.0, 10.1), (100.0, 9.9), 123.45, 3)
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(
        demo_output.summary_table({(method, split): longest for method in DEMO_METHODS for split in DEMO_SPLITS})
    )
    assert "…" not in console.export_text()


def test_curves_of_runs_that_ended_early_keep_their_last_value_to_the_end(tmp_path, monkeypatch):
    whole = [{"step": 10 * k, "accuracy": 0.1 * k} for k in range(5)]
    short = [{"step": 0, "accuracy": 0.2}, {"step": 10, "accuracy": 0.6}]
    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: (figures.append(figure), save(figure, path)))
    methods = {"A": [whole, short], "B": [short]}
    draw_comparison({"one": methods}, {"accuracy": "%"}, tmp_path / "curves.png", "title")
    (axes,) = figures[0].axes
    both, alone = axes.get_lines()
    assert both.get_xdata().tolist() == [0, 10, 20, 30, 40]
    assert both.get_ydata() == pytest.approx([10, 35, 40, 45, 50])
    assert alone.get_xdata().tolist() == [0, 10]
    assert alone.get_ydata() == pytest.approx([20, 60])
    band = axes.collections[0].get_paths()[0].vertices  # from the lowest to the highest seed
    assert (band[band[:, 0] == 40, 1].min(), band[band[:, 0] == 40, 1].max()) == pytest.approx((40, 60))
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--graph", "rign"], "Did you mean 'ring'?"),
        (["--graph", "exponential"], "needs an undirected graph"),
        (["--graph", "random-matchings"], "which needs the same graph in every step"),
        (["--graph", "edge-list"], "edge-list needs a value for path"),
        (["--agents", "0"], "agents"),
        (["--agents", "2000"], "2000 agents"),
        (["--out", "/dev/null"], "--out must name a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_demo_that_cannot_work_is_refused_before_any_process_starts(monkeypatch, capsys, tmp_path, options, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["crossgrad", "demo", *options])
    monkeypatch.setattr(demo_output, "_in_parallel", lambda *_: pytest.fail("a process was started"))
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert end.value.code == 2
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def one_then_interrupted(tasks, jobs):
    yield comparison.run_task(tasks[-1])
    raise KeyboardInterrupt


def test_a_demo_that_is_interrupted_keeps_the_runs_that_are_done(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["crossgrad", "demo", "--steps", "2", "--seeds", "1", "--out", str(tmp_path)])
    monkeypatch.setattr(demo_output, "_in_parallel", one_then_interrupted)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    (folder,) = tmp_path.iterdir()
    expected = f"Interrupted after 1 of {2 * len(DEMO_METHODS)} runs; they are kept in {folder}.\n"
    assert expected in capsys.readouterr().out
    assert len((folder / "records.jsonl").read_text().splitlines()) == 3


@pytest.mark.timeout(120)
def test_ctrl_c_ends_all_processes_of_a_demo_without_a_traceback(tmp_path, forks):
    command = ["-m", "crossgrad", "demo", "--steps", "100000", "--out", tmp_path, "--jobs", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = forks.start(command, start_new_session=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, **pipes)
    deadline = time.monotonic() + WAIT
    while not list(tmp_path.glob("*/records.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)  # the process of the first run is being started
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    assert f"Interrupted after 0 of {6 * len(DEMO_METHODS)} runs" in out
    assert err == ""
    while True:  # until nobody is left
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        assert time.monotonic() < deadline, "a process is left behind"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_demo_that_is_killed_leaves_no_process_behind(tmp_path):
    command = [sys.executable, "-m", "crossgrad", "demo", "--steps", "5000", "--seeds", "1", "--out", str(tmp_path)]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + WAIT
    while not (workers := _workers_of(parent.pid)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert workers
    parent.kill()
    parent.wait()
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def _workers_of(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    found = [int(child) for child in children.read_text().split()]
    return [child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
