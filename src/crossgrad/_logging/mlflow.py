"""Records as metrics of an MLflow run."""

import os
from collections.abc import Mapping
from typing import Any

from crossgrad._logging.logger import RunAbout
from crossgrad._storage import atomic

MLFLOW_ID_FILE = "mlflow-run.txt"  # in the run's folder: the id of the MLflow run, to go on with it
MAX_VALUE = 500  # characters of a parameter that every store of MLflow takes
EXPERIMENT = "crossgrad"
STATUS = {"finished": "FINISHED", "diverged": "FAILED", "failed": "FAILED", "interrupted": "KILLED"}


class MlflowLogger:
    """Logs to the store that MLflow's own variables name (`MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME`).

    It uses a client of its own, so that a run that the caller has open in MLflow is not touched.
    """

    def begin(self, about: RunAbout) -> None:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        self.client = MlflowClient()
        note = None if about.folder is None else about.folder / MLFLOW_ID_FILE
        if about.go_on_after is not None and note is not None and note.exists():
            self.run = atomic.read_note(note)
            self.client.update_run(self.run, status="RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        experiment: Any = self.client.get_experiment_by_name(name)
        try:
            number = self.client.create_experiment(name) if experiment is None else experiment.experiment_id
        except MlflowException:  # another cell of a sweep has just made it
            number = self.client.get_experiment_by_name(name).experiment_id
        self.run = self.client.create_run(number, run_name=about.name).info.run_id
        for key, value in about.settings.items():
            self.client.log_param(self.run, key, str(value)[:MAX_VALUE])
        if note is not None:
            atomic.write(note, [f"{self.run}\n".encode()])

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        from time import time

        from mlflow.entities import Metric

        now = int(1000 * time())
        self.client.log_batch(self.run, [Metric(name, value, now, step) for name, value in numbers.items()])

    def end(self, ended: str) -> None:
        self.client.set_terminated(self.run, STATUS[ended])
