"""Records as scalars of TensorBoard, in the run's folder."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from crossgrad._logging.logger import RunAbout

FOLDER = "tensorboard"


class TensorBoardLogger:
    """Writes event files to the folder `tensorboard` of the run: `tensorboard --logdir runs` shows all of them."""

    def begin(self, about: RunAbout) -> None:
        assert about.folder is not None
        # What was logged after the checkpoint comes again: TensorBoard hides what it had.
        purge = None if about.go_on_after is None else about.go_on_after + 1
        module = import_module("torch.utils.tensorboard")  # it cannot be imported where tensorboard is not installed
        self.writer: Any = module.SummaryWriter(str(about.folder / FOLDER), purge_step=purge)
        if about.go_on_after is None:
            lines = [f"    {name} = {value}" for name, value in about.settings.items()]
            self.writer.add_text("settings", "\n".join(lines), 0)

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def end(self, ended: str) -> None:
        self.writer.close()
