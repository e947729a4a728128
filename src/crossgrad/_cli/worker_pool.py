"""The worker processes of one sweep: a worker that is killed while it runs a cell is replaced, and the cell named."""

import signal
from collections.abc import Callable
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from crossgrad._cli.children import ignoring_ctrl_c
from crossgrad._runs.folder import RunFolder
from crossgrad._runs.lock import BusyError
from crossgrad._sweep.grid import Cell
from crossgrad._sweep.memory_gate import MemoryGate
from crossgrad._sweep.worker import folder_of, note_reason

CRASHES = [int(getattr(signal, f"SIG{name}", 0)) for name in ("SEGV", "ABRT", "BUS", "FPE", "ILL")]


class PoolProgress:
    """Which cell each worker runs, and which have failed or killed a worker; in memory that all processes share."""

    def __init__(self, context: SpawnContext, workers: int, cells: int) -> None:
        self._at = context.RawArray("q", [-1] * workers)
        self._given_up = context.RawArray("b", cells)

    def begin(self, worker: int, cell: int) -> bool:
        """Note that a worker begins a cell; False if it must not, as the cell has failed or killed a worker."""
        if self._given_up[cell]:
            return False
        self._at[worker] = cell
        return True

    def end(self, worker: int) -> None:
        """Note that a worker has ended its cell."""
        self._at[worker] = -1

    def give_up(self, worker: int) -> int | None:
        """The cell that a worker was running, which is not begun again in this sweep; None if there was none."""
        cell = int(self._at[worker])
        self._at[worker] = -1
        if cell < 0:
            return None
        self._given_up[cell] = 1
        return cell


class WorkerPool:
    """Processes that run the cells of a sweep.

    Args:
        sweep: the folder of the sweep.
        cells: all cells that are to be run.
        gate: the memory that the workers share.
        progress: where the workers note their cells.
        make: makes a process, not started yet, from its number.
        workers: how many there are at a time.
    """

    def __init__(
        self,
        sweep: Path,
        cells: tuple[Cell, ...],
        gate: MemoryGate,
        progress: PoolProgress,
        make: Callable[[int], BaseProcess],
        workers: int,
    ) -> None:
        self.sweep, self.cells, self.gate, self.progress, self.make = sweep, cells, gate, progress, make
        self.processes = [make(number) for number in range(workers)]

    def start(self) -> None:
        """Start all processes."""
        with ignoring_ctrl_c():
            for process in self.processes:
                process.start()

    def alive(self, replace: bool = True) -> bool:
        """Whether a process is at work; with `replace`, workers that died while they ran a cell are replaced."""
        for number, process in enumerate(self.processes):
            if process.is_alive() or process.exitcode is None:
                continue
            self.gate.leave(number)
            if replace and self._named(number, process.exitcode):
                self.processes[number] = self.make(number)
                with ignoring_ctrl_c():
                    self.processes[number].start()
        return any(process.is_alive() for process in self.processes)

    def kill(self) -> None:
        """Kill all processes, and wait until they have ended."""
        started = [process for process in self.processes if process.pid is not None]
        for process in started:
            process.kill()
        for process in started:
            process.join()

    def check(self) -> None:
        """Raise ChildProcessError if a process has ended for a reason that does not concern a cell."""
        lost = [process.exitcode for process in self.processes if process.exitcode]
        if killed := [-code for code in lost if code < 0]:
            raise ChildProcessError(
                f"{len(killed)} of {len(self.processes)} processes were ended from outside (signal {killed[0]}); is "
                "there enough memory? Run the same command again to resume; --jobs takes fewer."
            )
        if lost:
            raise ChildProcessError("a process failed; it has said why above. Run the same command again to resume.")

    def _named(self, number: int, exitcode: int) -> bool:
        """Write into the cell's folder how its process ended; False if the process was running no cell."""
        cell = self.progress.give_up(number)
        if cell is None:
            return False
        again = "Run the same command again to resume"
        if exitcode < 0 and -exitcode in CRASHES:
            how = f"its process crashed (signal {-exitcode}) in code of a library or plug-in. {again}."
        elif exitcode < 0:
            how = f"its process was ended from outside (signal {-exitcode}); is there enough memory? {again}; --jobs "
            how += "takes fewer at a time."
        else:
            how = f"its process ended in the midst of it (status {exitcode}). {again}."
        folder = RunFolder(folder_of(self.sweep, self.cells[cell]))
        try:
            folder.lock()
            if folder.ended is None:
                note_reason(folder.path, how)
        except (BusyError, ValueError, OSError):
            pass  # another command runs it, or the folder is damaged, which is reported at the end
        finally:
            folder.unlock()
        return True
