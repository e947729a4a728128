"""Records as the history of a run of Weights & Biases."""

import os
from collections.abc import Mapping
from typing import Any

from crossgrad._logging.logger import RunAbout
from crossgrad._storage import atomic

WANDB_ID_FILE = "wandb-run.txt"  # in the run's folder: the id of the run there, to go on with it
PROJECT = "crossgrad"


class WandbLogger:
    """Logs a run of its own; W&B's variables (`WANDB_PROJECT`, `WANDB_MODE=offline`, ...) say where and how."""

    def begin(self, about: RunAbout) -> None:
        import wandb

        note = None if about.folder is None else about.folder / WANDB_ID_FILE
        before = atomic.read_note(note) if about.go_on_after is not None and note and note.exists() else None
        self.run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=about.name,
            id=before,
            resume="allow" if before else None,
            config=dict(about.settings),
            dir=None if about.folder is None else str(about.folder),
            reinit="create_new",  # a run that the caller has open is not touched
            settings=wandb.Settings(silent=True),
        )
        self.run.define_metric("*", step_metric="crossgrad_step")
        if note is not None and before is None:
            atomic.write(note, [f"{self.run.id}\n".encode()])

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        # W&B's own counter only grows, and a run that goes on logs some steps again: the step is a number of its own.
        self.run.log({**numbers, "crossgrad_step": step})

    def end(self, ended: str) -> None:
        self.run.summary["ended"] = ended
        self.run.finish(exit_code=0 if ended in ("finished", "interrupted") else 1)
