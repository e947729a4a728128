"""One site at work: from its folder's last checkpoint, with its neighbours, to the end of the run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crossgrad._runs.checkpoint import Checkpoints
from crossgrad._runs.folder import RunFolder
from crossgrad._runs.runner import Listener, Run, Stop
from crossgrad.federation.file import Federation
from crossgrad.federation.group import SiteGroup
from crossgrad.federation.identity import Identity
from crossgrad.federation.journal import Ended, Journal, Saved, Started, last_epoch
from crossgrad.federation.links import Links
from crossgrad.federation.participation import Participation
from crossgrad.federation.secret import make_secret, use_secret
from crossgrad.federation.start import SiteData, start
from crossgrad.federation.training import SiteTraining, adopt_model, digest_of, model_bytes

JOURNAL = "journal.jsonl"
SPARE_BYTES = 4096  # of a message beside its numbers


@dataclass(frozen=True)
class AgentOptions:
    """What a site decides by itself."""

    folder: Path  # of the run; a run that is there goes on
    save_every: float = 60.0  # seconds between checkpoints
    keep_state: bool = False  # leave the last checkpoint at the end


class SiteCheckpoints(Checkpoints):
    """Checkpoints that the journal knows of before they are written."""

    journal: Journal

    def save(self, records: int, records_digest: str = "") -> None:
        training = self.training
        assert isinstance(training, SiteTraining)
        self.journal.add(Saved(training.federation_epoch, training.step_number))
        super().save(records, records_digest)


def open_folder(path: Path, federation: Federation) -> tuple[RunFolder, bool]:
    """The folder of a site's run, and whether the run has begun."""
    folder = RunFolder(path)
    begun = (path / "experiment.toml").exists()
    path.mkdir(parents=True, exist_ok=True)
    folder.lock()
    if not begun:
        folder.begin(federation.experiment)
    elif folder.ended:
        raise ValueError(f"{path}: this run has ended ({folder.ended}). Name another folder with --out.")
    return folder, begun


def run_site(
    federation: Federation,
    identity: Identity,
    data: SiteData,
    options: AgentOptions,
    show: Callable[[SiteTraining], Listener],
    say: Callable[[str], None],
) -> str:
    """Run one site to its end: finished, diverged or interrupted."""
    agent = federation.number(identity.name)
    training = start(federation, agent, data)
    folder, begun = open_folder(options.folder, federation)
    if federation.experiment.privacy is not None:
        use_secret(training, make_secret(folder.path))
    journal = Journal(folder.path / JOURNAL)
    checkpoints = SiteCheckpoints(folder.checkpoints, training, federation.digest)
    checkpoints.journal = journal
    try:
        with Stop() as stop:
            run = Run(training, folder, checkpoints, show(training), stop, options.save_every, options.keep_state)
            if begun:
                run.go_on()
            participation = _take_part(federation, agent, training, journal, folder.path, say, stop)
            links = Links(federation, identity, participation, _largest_message(training))
            participation.links = links
            links.start()
            try:
                fresh = training.step_number == 0
                participation.gather()
                given = participation.adopt() if fresh else None
                if given is not None:
                    adopt_model(training, given)
                ended = run.carry_out()
                digest = training.trained or digest_of(training.state.x[0])
                journal.add(Ended(training.federation_epoch, training.step_number, digest))
            finally:
                links.stop()
    finally:
        journal.close()
        folder.unlock()
    return ended


def _take_part(
    federation: Federation,
    agent: int,
    training: SiteTraining,
    journal: Journal,
    folder: Path,
    say: Callable[[str], None],
    stop: Stop,
) -> Participation:
    """Note the start in the journal, and connect the training with the protocol."""
    saved = (training.federation_epoch, training.step_number) if training.step_number else None
    epoch = last_epoch(folder / JOURNAL) + 1
    training.federation_epoch = epoch
    journal.add(Started(epoch, training.step_number, saved))
    participation = Participation(federation, agent, journal, training.step_number, epoch, say)
    participation.stopping = lambda: stop.wanted
    training.steps = participation
    assert isinstance(training.group, SiteGroup)
    training.group.transport.exchanges = participation
    participation.model = lambda: model_bytes(training)
    return participation


def _largest_message(training: SiteTraining) -> int:
    rows = (training.state.x, training.buffers.floats_NF)
    return 2 * max(part[0].nbytes for part in rows) + SPARE_BYTES
