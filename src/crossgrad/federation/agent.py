"""Running one site: from the last checkpoint in its folder to the end of the run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from crossgrad._runs.agents_file import drop_smaller_graph
from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import RunFolder
from crossgrad._runs.runner import Listener, Run, Stop
from crossgrad._training.trainer import Training
from crossgrad.experiments.choices import DataChoice
from crossgrad.experiments.toml import load_toml, read_file
from crossgrad.federation.file import Federation
from crossgrad.federation.group import SiteGroup
from crossgrad.federation.identity import Identity
from crossgrad.federation.journal import JOURNAL, Ended, Journal, Saved, Started, last_epoch
from crossgrad.federation.links import SPARE_BYTES, Connections
from crossgrad.federation.participation import Participation
from crossgrad.federation.secret import make_secret, use_secret
from crossgrad.federation.start import SiteData, start
from crossgrad.federation.training import SiteTraining, adopt_model, digest_of, model_bytes, with_model
from crossgrad.federation.versions import Known, Later, keep

OWN_DATA = "own"  # in place of a data set's name


@dataclass(frozen=True)
class AgentOptions:
    """Options that each site chooses for itself."""

    folder: Path  # of the run; a run that is there goes on
    save_every: float = 60.0  # seconds between checkpoints
    keep_state: bool = False  # leave the last checkpoint at the end
    file: Path | None = None  # the federation's file, which is checked for a later version


class SiteStop(Stop):
    """Stops on a signal, and after the present step for a later version of the federation's file."""

    later: Later | None = None

    @property
    def wanted(self) -> bool:
        return self.signalled or self.changes

    @property
    def signalled(self) -> bool:
        return self.signal is not None

    @property
    def changes(self) -> bool:
        """Whether the site goes on with another version of the file."""
        return self.later is not None and self.later.look() is not None


class SiteCheckpoints(Checkpoints):
    """Checkpoints that are entered in the journal before they are written."""

    journal: Journal
    _entered: Saved | None = None  # a checkpoint that cannot be written is tried again and again

    def save(self, records: int, records_digest: str = "") -> None:
        training = self.training
        assert isinstance(training, SiteTraining)
        if (saved := Saved(training.federation_epoch, training.step_number)) != self._entered:
            self.journal.add(saved)
            self._entered = saved
        self.journal.catch_up()
        super().save(records, records_digest)


class SiteRun(Run):
    """A run that steps aside while it cannot write, such as on a full disk, so that the other sites go on."""

    step_aside: Callable[[], None] = staticmethod(lambda: None)

    def check_graph(self) -> None:
        """Check the graph unless a later version of the federation's file has added sites to it (growing.py)."""
        drop_smaller_graph(self.folder.path, self.training)
        super().check_graph()

    def _written(self, action: Callable[[], None]) -> bool:
        def tried() -> None:
            try:
                action()
            except OSError:
                self.step_aside()
                raise

        return super()._written(tried)


class SiteFolder(RunFolder):
    """A site's folder. Its journal has the end before the summary does, so a run that has ended is never without."""

    journal: Journal
    stop: SiteStop
    _entered: Ended | None = None  # an end that cannot be written is tried again and again

    def finish(self, training: Training, module: nn.Module, ended: str) -> None:
        assert isinstance(training, SiteTraining)
        if ended != "interrupted" or self.stop.signalled:  # else it goes on with a later version of the file
            digest = training.trained or digest_of(training.state.x[0])
            if (end := Ended(training.federation_epoch, training.step_number, digest)) != self._entered:
                self.journal.add(end)
                self._entered = end
            self.journal.catch_up()
        super().finish(training, module, ended)


def open_folder(path: Path, federation: Federation, data: SiteData) -> tuple[SiteFolder, bool]:
    """The folder of a site's run, and whether the run has begun."""
    folder = SiteFolder(path)
    begun = (path / "experiment.toml").exists()
    path.mkdir(parents=True, exist_ok=True)
    folder.lock()
    if not begun:
        experiment = federation.experiment
        if data.private:  # pages and tables show what is trained on
            experiment = replace(experiment, data=DataChoice(OWN_DATA))
        folder.begin(experiment)
    elif folder.ended:
        raise ValueError(
            f"{path} must be a new folder, or one whose run is not over; its run has ended ({folder.ended}). Name "
            "another with --out."
        )
    return folder, begun


def trained_on_own_data(folder: Path) -> bool:
    """Whether the site whose run is in this folder had data of its own."""
    path = folder / "experiment.toml"
    written = read_file(path, "an experiment", load_toml) if path.exists() else {}
    return written.get("data") == {"name": OWN_DATA}


def run_site(
    known: Known,
    identity: Identity,
    data: SiteData,
    options: AgentOptions,
    show: Callable[[SiteTraining], Listener],
    say: Callable[[str], None],
) -> tuple[str, int | None]:
    """Run one site to its end: finished, diverged or interrupted, and the signal that asked it to stop.

    A later version of the federation's file is taken between two steps: the site saves its state, leaves, and comes
    back with that version, at a step that it agrees on with its neighbours.
    """
    agent = known.federation.number(identity.name)
    training = start(known.federation, agent, data)
    folder, begun = open_folder(options.folder, known.federation, data)
    folder.journal, folder.stop = journal, stop = Journal(folder.path / JOURNAL), SiteStop()
    try:
        with stop:
            while True:
                keep(folder.path, *known)
                stop.later = Later(known.federation, identity, options.file, say)
                site = _Site(known, identity, training, folder, journal, options, stop, say)
                ended = site.carry_out(show(training), begun)
                if stop.later.found is None or stop.signalled or ended != "interrupted":
                    return ended, stop.signal
                known, begun = stop.later.found, True
                training = start(known.federation, agent, data)
    finally:
        journal.close()
        folder.unlock()


@dataclass
class _Site:
    """A site's work with one version of the federation's file."""

    known: Known
    identity: Identity
    training: SiteTraining
    folder: SiteFolder
    journal: Journal
    options: AgentOptions
    stop: SiteStop
    say: Callable[[str], None]

    def carry_out(self, listener: Listener, begun: bool) -> str:
        """Train, from the last checkpoint if the run has begun, to the end or until it is to stop."""
        training, federation = self.training, self.known.federation
        if federation.experiment.privacy is not None:
            use_secret(training, make_secret(self.folder.path))
        checkpoints = SiteCheckpoints(self.folder.checkpoints, training, federation.run_digest)
        checkpoints.journal, options = self.journal, self.options
        run = SiteRun(training, self.folder, checkpoints, listener, self.stop, options.save_every, options.keep_state)
        if begun:
            run.go_on()
            for problem in checkpoints.problems:
                self.say(problem)
        participation = self._take_part()
        run.step_aside = participation.step_aside
        links = Connections(
            with_model(federation, training),
            self.identity,
            participation,
            _largest_message(training),
            self.known.signed,
        )
        participation.links = links
        links.start()
        try:
            fresh = training.step_number == 0
            participation.gather()
            if self.stop.wanted:  # no step was taken, so a site that waits for the first one does so again
                return "interrupted"
            if fresh:
                participation.adopt(lambda content: adopt_model(training, content))
            return run.carry_out()
        finally:
            later = None if self.stop.later is None else self.stop.later.found
            links.stop(None if later is None else later.signed)  # so that neighbours get it, too

    def _take_part(self) -> Participation:
        """Note the start in the journal, and connect the training with the protocol."""
        training, federation = self.training, self.known.federation
        saved = (training.federation_epoch, training.step_number) if training.step_number else None
        epoch = last_epoch(self.folder.path / JOURNAL) + 1
        training.federation_epoch = epoch
        self.journal.add(Started(epoch, training.step_number, saved, federation.version))
        self.journal.catch_up()
        agent = federation.number(self.identity.name)
        participation = Participation(
            federation, agent, self.journal, training.step_number, epoch, self.say, training.total_steps
        )
        participation.stopping, participation.later = lambda: self.stop.signalled, self.stop.later
        training.steps = participation
        assert isinstance(training.group, SiteGroup)
        training.group.transport.exchanges = participation
        participation.requests.model = lambda: model_bytes(training)
        return participation


def _largest_message(training: SiteTraining) -> int:
    rows = (training.state.x, training.buffers.floats_NF)
    return 2 * max(part[0].nbytes for part in rows) + SPARE_BYTES
