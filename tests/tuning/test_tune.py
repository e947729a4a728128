"""`crossgrad tune`: settings by validation data, numbers by test data."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from crossgrad._cli import tuned_runs
from crossgrad._runs.results import RunResult, read_results
from crossgrad._runs.runner import SilentListener, Stop
from crossgrad._sweep.worker import Worker
from crossgrad._tuning.file import parse_tuning
from crossgrad._tuning.plan import TunedEntry, score
from crossgrad._tuning.standings import Interval, Standing, standings
from crossgrad.experiments.config import ConfigError
from crossgrad.records import Record

FILE = """
name = "tiny"
[experiment]
agents = 3
graph = "ring"
partition = "class"
model = { name = "mlp", hidden = [4] }
training = { batch_size = 8, steps = 2, evaluate_every = 2, threads = 1 }
links = { latency = "20 ms" }
[axes]
algorithm = ["dpmsgd", "dpsgd"]
[tune]
trials = 4
momentum = [0.0, 0.9]
lr = [0.1, 1.0]
"""


def result(labels, validation, test, ended="finished", **more):
    """A run as if it had ended with these accuracies of the mean agent."""
    record = Record(
        2, 1.0, 0.1, None, 1.0, None, test, (test, test), 0.0, 200, {}, (100, 100), 6, 1.0,
        diagnostics={} if validation is None else {"validation_mean_agent": validation},
        simulated_seconds=0.5,
    )  # fmt: skip
    name = "-".join(labels.values())
    return RunResult(name, labels, {}, (record,), {"ended": ended}, {"commit": "abc"}, **more)


def labels(lr, part, seed):
    return {"algorithm": "edm", "lr": lr, "momentum": "-", "part": part, "seed": seed}


def test_the_confidence_interval_is_students():
    values = [90.0, 91.5, 95.0]
    low, high = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
    found = Interval.of(values)
    assert found.mean == pytest.approx((low + high) / 2, abs=0.01)
    assert found.half_width == pytest.approx((high - low) / 2, abs=0.01)


def test_the_settings_with_the_best_validation_accuracy_are_reported_with_their_test_accuracies():
    trials = [
        result(labels(lr, "validation", "0"), value, 0.99) for lr, value in (("0.1", 0.7), ("1", 0.9), ("10", 0.8))
    ]
    tests = [result(labels("1", "test", seed), 0.5, value) for seed, value in (("1", 0.8), ("2", 0.82), ("3", 0.84))]
    older = [result(labels("0.1", "test", seed), 0.5, 0.99) for seed in "123"]  # the best of fewer trials
    (row,) = standings([*older, *trials, *tests])
    assert (row.lr, row.trials, row.validation, row.at_edge) == (1.0, 3, 90.0, False)
    assert row.mean_agent.mean == pytest.approx(82.0)
    assert row.seeds == ("1", "2", "3")
    assert (row.megabytes, row.gradients, row.simulated_seconds, row.commit) == (0.0001, 3.0, 0.5, "abc")
    assert Standing.from_json(json.loads(json.dumps(row.as_json()))) == row


def test_a_seed_that_was_run_again_by_a_later_version_counts_once():
    """Else the interval would be too narrow: 3 seeds run twice are no 6 seeds."""
    trial = result(labels("1", "validation", "0"), 0.9, 0.9)
    tests = [result(labels("1", "test", seed), 0.5, value) for seed, value in (("1", 0.8), ("2", 0.82), ("3", 0.84))]
    once, again = standings([trial, *tests]), standings([*tests, trial, *tests])
    assert once == again
    assert once[0].seeds == ("1", "2", "3")


def test_a_diverged_run_counts_as_the_worst():
    bad, diverged = result(labels("1", "validation", "0"), 0.0, 0.0), result({}, 0.99, 0.9, ended="diverged")
    assert score(diverged, "mean_agent") < score(bad, "mean_agent") == 0.0


def test_a_task_without_accuracy_cannot_be_tuned():
    with pytest.raises(ValueError, match="Tune a task with classes"):
        score(result(labels("1", "validation", "0"), None, 0.5), "mean_agent")


def test_every_entry_gets_the_same_number_of_trials_and_seeds_of_their_own():
    tuning = parse_tuning(FILE, ["tune.trials=6"])
    results, count = {}, {"dpmsgd": [], "dpsgd": []}
    while any(cells := tuning.next_cells(results)):
        for cell in (cell for each in cells for cell in each):
            lr, labels = float(cell.labels["lr"]), cell.labels
            assert cell.name not in results
            assert cell.experiment.schedule.lr == lr
            assert cell.experiment.training.validation == 0.2
            assert str(cell.experiment.seed) == labels["seed"]
            results[cell.name] = replace(result(labels, 1 / (1 + abs(lr - 0.3)), 0.5), name=cell.name)
            count[labels["algorithm"]].append(labels["part"])
    assert {name: (parts.count("validation"), parts.count("test")) for name, parts in count.items()} == {
        "dpmsgd": (6, 3),
        "dpsgd": (6, 3),
    }
    assert len(standings(results.values())) == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("trials = 3", "at least the 4 points"),
        ("seeds = [1, 2]", "3 or more different ones"),
        ("seeds = [0, 1, 2]", "reported twice"),
        ('judge = "best"', "judge"),
        ("patience = 1", "no key 'patience'"),
    ],
)
def test_a_table_tune_that_makes_no_sense_is_refused(change, reason):
    text = FILE.replace("trials = 4", change) if change.startswith("trials") else FILE + change
    with pytest.raises(ConfigError, match=reason):
        parse_tuning(text)


@pytest.mark.parametrize("axis", ["seed = [1, 2]", '"schedule.lr" = [0.1]', '"algorithm.momentum" = [0.5]'])
def test_what_is_tuned_is_no_axis(axis):
    with pytest.raises(ConfigError, match="no axis can set it"):
        parse_tuning(FILE.replace("[axes]\n", f"[axes]\n{axis}\n"))


def test_the_momentum_of_a_method_without_one_is_not_tuned():
    with_one, without = (entry.space(parse_tuning(FILE).choice) for entry in parse_tuning(FILE).entries)
    assert (with_one.momentum, without.momentum) == ((0.0, 0.9), ())
    assert isinstance(parse_tuning(FILE).entries[0], TunedEntry)


def in_this_process(folder, grid, options):
    """Run the cells as a worker of a sweep does."""
    with Stop() as stop:
        Worker(folder, SilentListener(), stop).run_all(grid.cells)
    return True


def test_the_command_tunes_reports_and_does_not_run_anything_twice(crossgrad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tuned_runs, "run_cells", in_this_process)
    Path("tiny.toml").write_text(FILE.replace(', "dpsgd"', ""))
    first = crossgrad("tune", "tiny.toml")
    assert (first.status, first.err) == (0, "")
    assert "± is half of a 95 % confidence interval" in " ".join(first.out.split())
    table = Path("tuned/tiny/table.md").read_text()
    assert "| dpmsgd |" in table
    runs = {path: path.stat().st_mtime_ns for path in Path("tuned").rglob("summary.json")}
    (row,) = standings(read_results("tuned/tiny"))
    assert len(runs) == row.trials + 3
    assert row.simulated_seconds == pytest.approx(2 * 0.04, rel=0.1)  # two steps of two latencies each
    again = crossgrad("tune", "tiny.toml")
    assert again.status == 0
    assert {path: path.stat().st_mtime_ns for path in Path("tuned").rglob("summary.json")} == runs
    assert Path("tuned/tiny/table.md").read_text() == table
    assert crossgrad("pack", "tuned/tiny", "kept/tiny").status == 0
    assert crossgrad("tune", "tiny.toml", "--out", "kept").status == 0  # goes on from what was packed
    assert not Path("kept/tiny/cells").exists()
    assert Path("kept/tiny/table.md").read_text() == table


def test_what_could_not_be_run_is_left_out_and_the_others_are_tuned(crossgrad, tmp_path, monkeypatch):
    def without_dpsgd(folder, grid, options):
        cells = tuple(cell for cell in grid.cells if cell.labels["algorithm"] != "dpsgd")
        return in_this_process(folder, replace(grid, cells=cells), options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tuned_runs, "run_cells", without_dpsgd)
    Path("tiny.toml").write_text(FILE)
    answer = crossgrad("tune", "tiny.toml")
    assert answer.status == 1
    assert "Some could not be run and are missing" in " ".join(answer.out.split())
    assert [row.labels for row in standings(read_results("tuned/tiny"))] == [{"algorithm": "dpmsgd"}]


def test_a_tuning_in_the_folder_of_one_with_other_steps_has_no_trials_seeds_or_rows_of_that(
    crossgrad, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tuned_runs, "run_cells", in_this_process)
    Path("tiny.toml").write_text(FILE)
    shorter = ("tiny.toml", "training.steps=1", "training.evaluate_every=1")
    assert crossgrad("tune", "tiny.toml").status == 0
    Path("tiny.toml").write_text(FILE.replace(', "dpsgd"', ""))
    assert crossgrad("tune", *shorter).status == crossgrad("tune", *shorter, "--out", "fresh").status == 0
    both, alone = (json.loads(Path(out, "tiny", "standings.json").read_text()) for out in ("tuned", "fresh"))
    assert both == alone
    assert [row["seeds"] for row in both["rows"]] == [["1", "2", "3"]]
