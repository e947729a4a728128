"""Records reach loggers: a CSV file, TensorBoard, MLflow, Weights & Biases."""

import csv
import os
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad._logging.csv import CsvLogger
from crossgrad._logging.logger import RunAbout, check_loggers
from crossgrad._logging.logs import Logs
from crossgrad.records.record import Record

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
DATA = (X, (X[:, 0] > 0).long())


def run(**more):
    return cg.fit(nn.Linear(3, 2), DATA, graph=cg.ring(4), test=DATA, steps=4, evaluate_every=2, **more)


def rows(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def numbers(record):
    return {name: value for name, value in record.numbers().items() if value is not None}


class Spoilt:
    """A logger that fails at every record."""

    def begin(self, about): ...

    def record(self, step, numbers):
        raise OSError("the server is gone")

    def end(self, ended): ...


def test_the_csv_file_has_every_number_of_every_record(tmp_path):
    result = run(log="csv", out=tmp_path / "run", metrics=["macro_f1"])
    found = rows(tmp_path / "run" / "records.csv")
    assert [int(row["step"]) for row in found] == [0, 2, 4]
    for row, record in zip(found, result.records, strict=True):
        assert {name: float(text) for name, text in row.items() if text} == pytest.approx(numbers(record), abs=0)
    assert {"macro_f1", "macro_f1_worst_agent"} <= found[0].keys()


def test_a_metric_of_ones_own_reaches_a_logger_of_ones_own_by_itself():
    class Kept:
        def begin(self, about):
            self.about, self.seen = about, {}

        def record(self, step, numbers):
            self.seen[step] = dict(numbers)

        def end(self, ended):
            self.ended = ended

    logger = Kept()
    run(log=logger, metrics={"first_share": lambda scores, targets: (scores[:, 0] > 0).double().mean()})
    assert logger.ended == "finished"
    assert all(0 <= seen["first_share"] <= 1 for seen in logger.seen.values())
    assert logger.about.settings["graph.name"] == "ring"


def test_a_run_that_goes_on_logs_no_record_twice(tmp_path):
    first, again = CsvLogger(), CsvLogger()
    first.begin(RunAbout("run", {}, tmp_path))
    for step in (0, 2, 4):
        first.record(step, {"loss": 1.0 / (1 + step)})
    again.begin(RunAbout("run", {}, tmp_path, go_on_after=3))
    again.record(4, {"loss": 0.2})
    assert [row["step"] for row in rows(tmp_path / "records.csv")] == ["0", "2", "4"]


def test_a_csv_file_was_written_through_a_link_and_read_from_a_pipe(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("somebody's own\n")
    (tmp_path / "records.csv.tmp").symlink_to(victim)
    (tmp_path / "records.csv").symlink_to(victim)
    logger = CsvLogger()
    logger.begin(RunAbout("run", {}, tmp_path))
    logger.record(0, {"loss": 2.0})
    assert victim.read_text() == "somebody's own\n"
    assert [row["loss"] for row in rows(tmp_path / "records.csv")] == ["2.0"]
    (tmp_path / "records.csv").unlink()
    os.mkfifo(tmp_path / "records.csv")
    with pytest.raises(ValueError, match="must be a file"):
        CsvLogger().begin(RunAbout("run", {}, tmp_path, go_on_after=0))


def test_a_number_that_is_not_finite_is_left_out_of_a_log(tmp_path):
    record = Record(0, 0.0, 0.1, None, float("nan"), None, None, (), 0.0, 0, {}, (), 0, 0.0)
    with Logs(["csv"], RunAbout("run", {}, tmp_path)) as logs:
        logs.record(record)
        logs.record(replace(record, step=1, loss=2.0))
    assert [row["loss"] for row in rows(tmp_path / "records.csv")] == ["", "2.0"]


def test_a_logger_that_fails_is_left_out_with_a_warning_and_the_run_goes_on():
    with pytest.warns(UserWarning, match="Spoilt could not log .the server is gone.. The run goes on") as warned:
        result = run(log=Spoilt())
    assert result.ended == "finished"
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("tensorbord", "must be one of tensorboard, mlflow, wandb, csv; found 'tensorbord'"),
        ("csv", "writes into the run's folder; there is none"),
        (3, "must have the methods begin, record and end; found a int"),
    ],
)
def test_a_logger_that_cannot_be_is_one_sentence(log, sentence):
    with pytest.raises(ValueError, match=sentence):
        run(log=log)


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("crossgrad._logging.logger.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'crossgrad\[mlflow\]'"):
        check_loggers("mlflow")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_back_what_was_logged(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = run(log=["tensorboard", "csv"], out=tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    for name in ("loss", "accuracy", "consensus"):
        logged = [(event.step, event.value) for event in events.Scalars(name)]
        assert logged == [(r.step, pytest.approx(getattr(r, name), rel=1e-6)) for r in result.records]


@pytest.mark.filterwarnings("ignore")  # of MLflow's own
@pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed: pip install 'crossgrad[mlflow]'")
def test_mlflow_reads_back_what_was_logged_from_a_local_store(tmp_path, monkeypatch):
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'store.db'}")
    monkeypatch.chdir(tmp_path)
    result = run(log="mlflow", out=tmp_path / "run")
    number = (tmp_path / "run" / "mlflow-run.txt").read_text().strip()
    client = mlflow.MlflowClient()
    logged = [(metric.step, metric.value) for metric in client.get_metric_history(number, "loss")]
    assert logged == [(record.step, record.loss) for record in result.records]
    found = client.get_run(number)
    assert found.info.status == "FINISHED"
    assert found.data.params["graph.name"] == "ring"


@pytest.mark.filterwarnings("ignore")  # of W&B's own
@pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed: pip install 'crossgrad[wandb]'")
def test_wandb_writes_a_run_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    result = run(log="wandb", out=tmp_path / "run")
    (file,) = (tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb")
    text, until = file.read_bytes(), time.monotonic() + 30
    while b"worst_agent" not in text and time.monotonic() < until:  # W&B's own process writes on after finish()
        time.sleep(0.05)
        text = file.read_bytes()
    assert b"worst_agent" in text
    assert repr(result.records[-1].loss)[:8].encode() in text
