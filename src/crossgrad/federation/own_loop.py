"""A site in a training loop of its own: `with crossgrad.site(...) as group:` around an optimiser of crossgrad.optim."""

import hashlib
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypeVar

from torch import nn

from crossgrad._network.context import NetworkContext
from crossgrad._network.network import AgentNetwork
from crossgrad._processes.group import Replica
from crossgrad._processes.torchrun import as_current
from crossgrad._runs.lock import FolderLock
from crossgrad.federation.claims import NO_LAST_STEP
from crossgrad.federation.file import Federation
from crossgrad.federation.group import SiteGroup
from crossgrad.federation.identity import Identity
from crossgrad.federation.insecure import WARNING, insecure_site
from crossgrad.federation.journal import JOURNAL, Journal, Started, last_epoch
from crossgrad.federation.links import SPARE_BYTES, Connections
from crossgrad.federation.participation import Participation
from crossgrad.federation.reading import read_federation
from crossgrad.federation.versions import Later
from crossgrad.graphs import Graph

T = TypeVar("T")
Say = Callable[[str], None]


class OwnLoopGroup(SiteGroup):
    """One site whose steps are taken by an optimiser of `crossgrad.optim`. Made by `crossgrad.site`.

    Attributes:
        federation: what the file says.
        graph: of all sites; what the optimiser takes.
        step: the number of the step that comes next.
    """

    links_may_fail: ClassVar[bool] = True

    def __init__(self, federation: Federation, identity: Identity, folder: Path, say: Say) -> None:
        self.federation, self.identity, self.folder, self.say = federation, identity, folder, say
        super().__init__(federation.number(identity.name), [1] * len(federation.sites))
        self.processes = len(federation.sites)
        self.graph, self.step = federation.graph, 0
        self._journal: Journal | None = None
        self._links: Connections | None = None
        self._participation: Participation | None = None

    @property
    def neighbours(self) -> list[str]:
        """The names of the neighbours that take part at present."""
        active = [] if self._participation is None else self._participation.active
        return [self.federation.sites[peer].name for peer in active]

    def agree(self, text: str) -> None:
        """Sites compare what they train when they greet one another, not all at once."""
        self.federation = replace(self.federation, loop=hashlib.sha256(text.encode()).hexdigest())

    def network(self, graph: Graph, context: NetworkContext, step: int) -> AgentNetwork:
        if graph is not self.graph:
            raise ValueError("the graph must be that of the federation's file; found another. Pass graph=group.graph.")
        return super().network(graph, context, step)

    def begin_step(self, replica: Replica, step: int) -> int:
        if self._participation is None:
            self._join(replica, step)
        assert self._participation is not None
        self.live = self._participation.begin()
        self.transport.begin()
        self.step = self.live.step
        return self.live.step

    def end_step(self) -> None:
        assert self._participation is not None
        self._participation.finish()
        self.step += 1

    def in_step(self, loader: Collection[T]) -> Iterator[T]:
        """Batches of the loader, again and again, until the federation has taken as many steps as its file says.

        A site that was away thus ends with the others. Where the file counts epochs, they are of this loader.
        """
        if len(loader) == 0:
            raise ValueError(
                f"the loader of {self.identity.name} must have at least one batch; it is empty. Give it data."
            )
        training = self.federation.experiment.training
        steps = training.steps or max(1, round((training.epochs or 0) * len(loader)))
        while self.step < steps:
            for batch in loader:
                if self.step >= steps:
                    return
                yield batch

    def averaged(self, model: nn.Module) -> nn.Module:
        raise ValueError(
            "an average needs all models; within a site's loop there is one. Save this site's model, and use "
            "`crossgrad federation average` on what the sites hand over."
        )

    def close(self) -> None:
        """Say goodbye to the neighbours."""
        if self._links is not None:
            self._links.stop()
        if self._journal is not None:
            self._journal.close()

    def _say_later(self, sentence: str) -> None:
        """The optimiser has the graph that it was made with, so a loop takes a later version when it begins anew."""
        self.say(f"{sentence} Start the loop again with that file to take part with those who have it.")

    def _join(self, replica: Replica, step: int) -> None:
        """Before the first step: connect, wait for the neighbours, and take over a model if they are at work."""
        path, content = self.folder / JOURNAL, replica.model_bytes()
        self._journal = Journal(path)
        epoch = last_epoch(path) + 1
        self._journal.add(Started(epoch, step, None))
        self._journal.catch_up()
        last = self.federation.experiment.training.steps or NO_LAST_STEP
        participation = Participation(self.federation, self.rank, self._journal, step, epoch, self.say, last)
        participation.requests.model = replica.model_bytes
        participation.later = Later(self.federation, self.identity, None, self._say_later)
        links = Connections(self.federation, self.identity, participation, 2 * len(content) + SPARE_BYTES)
        participation.links = self._links = links
        self.transport.exchanges = self._participation = participation
        links.start()
        participation.gather()
        if step == 0:
            participation.adopt(replica.adopt)


@contextmanager
def site(
    federation: str | Path,
    name: str,
    *,
    identity: str | Path | None = None,
    out: str | Path | None = None,
    insecure: bool = False,
) -> Iterator[OwnLoopGroup]:
    """Take part in a federation with a training loop of one's own.

    Inside the block, optimisers of `crossgrad.optim` exchange messages with this site's neighbours. Neighbours that
    are lost are left out of a step, and come back, as for `crossgrad agent`. Model and algorithm are those of the
    optimiser; sites whose models or algorithms differ refuse one another. Every site should build its model with the
    same seed; one that comes later begins with a neighbour's model. To go on after a stop, load the state dicts of
    model and optimiser before the first step.

    Args:
        federation: the federation's file.
        name: which of its sites this is.
        identity: the folder with the site's key and certificates; default: its name.
        out: the folder of the journal; default: runs/FEDERATION-NAME.
        insecure: no certificates and no encryption; for trials on one machine only.

    Yields:
        The group: `group.graph` for the optimiser, `group.in_step(loader)` for the loop.

    Raises:
        ValueError: the file, the identity or the folder is not what it must be; the text says what to do.

        with crossgrad.site("federation.toml", "hospital-a") as group:
            opt = crossgrad.optim.CGA(model, graph=group.graph, lr=0.01, momentum=0.9)
            for inputs, labels in group.in_step(loader):
                opt.step(closure)
    """
    known = read_federation(Path(federation))
    if insecure:
        own: Identity = insecure_site(known, name)
        sys.stderr.write(f"{WARNING}\n")
    else:
        own = Identity.load(Path(identity) if identity is not None else Path(name), name)
    folder = Path(out) if out is not None else Path("runs") / f"{known.name}-{name}"
    folder.mkdir(parents=True, exist_ok=True)

    def say(sentence: str) -> None:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {name}: {sentence}\n")

    lock, group = FolderLock(folder), OwnLoopGroup(known, own, folder, say)
    lock.acquire()
    try:
        with as_current(group):
            yield group
    finally:
        group.close()
        lock.release()
