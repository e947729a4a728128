"""The loggers of one run, all together."""

import warnings
from collections.abc import Callable, Sequence
from math import isfinite
from types import TracebackType
from typing import Self

from crossgrad._logging.logger import Logger, RunAbout, made
from crossgrad.records.record import Record


class Logs:
    """Passes the numbers of every record to a run's loggers.

    A logger that fails, such as one whose server is gone, is left out from then on with a warning: training does not
    depend on it, and the records are in the run's folder.

    Args:
        chosen: names and loggers, as `check_loggers` returns them.
        about: the run.
    """

    def __init__(self, chosen: Sequence[str | Logger], about: RunAbout) -> None:
        self.about, self.ended = about, "failed"
        self.loggers: dict[str, Logger] = {}
        for one in chosen:
            self.loggers[one if isinstance(one, str) else type(one).__name__] = made(one)

    def __enter__(self) -> Self:
        self._all(lambda logger: logger.begin(self.about))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._all(lambda logger: logger.end(self.ended))

    def record(self, record: Record) -> None:
        """Log one record."""
        numbers = {name: float(value) for name, value in record.numbers().items() if value is not None}
        finite = {name: value for name, value in numbers.items() if isfinite(value) and name != "step"}
        self._all(lambda logger: logger.record(record.step, finite))

    def _all(self, call: Callable[[Logger], None]) -> None:
        for name, logger in list(self.loggers.items()):
            try:
                call(logger)
            except Exception as error:
                del self.loggers[name]
                first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
                warnings.warn(f"{name} could not log ({first}). The run goes on without it.", stacklevel=2)
