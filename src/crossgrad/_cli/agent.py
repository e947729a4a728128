"""`crossgrad agent`: one site of a federation at work."""

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Plugins

if TYPE_CHECKING:
    from crossgrad.federation.file import Federation
    from crossgrad.federation.identity import Identity

FederationFile = Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="The federation's file.")]
Site = Annotated[str, typer.Option(metavar="NAME", help="This site's name in the file.")]
IdentityFolder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The folder of the site's key and certificates; default: named after the site."),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="No certificates and NO ENCRYPTION: for trials on one machine only.")
]


def site_identity(known: "Federation", site: str, folder: Path | None, insecure: bool) -> "Identity":
    """The site's key and certificates; without any, after a loud warning, where that was asked for."""
    from crossgrad.federation.identity import Identity
    from crossgrad.federation.insecure import WARNING, insecure_site

    known.number(site)
    if not insecure:
        return Identity.load(folder or Path(site), site)
    own = insecure_site(known, site)
    print(WARNING, file=sys.stderr, flush=True)
    return own


@app.command(
    epilog=examples(
        "crossgrad agent federation.toml --site hospital-a --data /srv/scans",
        "crossgrad agent federation.toml --site hospital-b --data ourscans:load",
    )
)
def agent(
    federation: FederationFile,
    site: Site,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="The site's own data: a folder, or module:function.")
    ] = None,
    identity: IdentityFolder = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The run's folder; if it has a run already, that run is continued."),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Time between checkpoints; 0: after every step.")
    ] = 60.0,
    keep_state: Annotated[bool, typer.Option("--keep-state", help="Keep the last checkpoint at the end.")] = False,
    plugin: Plugins = None,
    insecure: Insecure = False,
) -> None:
    """Train as one site of a federation. If it is started again, it continues where it stopped.

    A later version of the file, signed by `crossgrad federation publish`, is read while it runs.
    Without --data the site uses its part of the experiment's public data set.
    """
    from crossgrad._cli.options import RunOptions
    from crossgrad._cli.progress import ProgressDisplay
    from crossgrad.federation.agent import AgentOptions, run_site
    from crossgrad.federation.data import data_of_site
    from crossgrad.federation.reading import read_federation
    from crossgrad.federation.secret import secret_advice
    from crossgrad.federation.start import data_of_versions
    from crossgrad.federation.training import SiteTraining
    from crossgrad.federation.versions import read_known, versions_of

    own_file = read_federation(federation)
    own = site_identity(own_file, site, identity, insecure)
    folder = out or Path("runs") / f"{own_file.name}-{site}"
    known = read_known(federation, folder, own)
    number = known.federation.number(site)
    if data is None:
        samples = data_of_versions(versions_of(known.federation, [folder]))[number]
    else:
        samples = data_of_site(data, known.federation, number)

    def show(training: SiteTraining) -> ProgressDisplay:
        return ProgressDisplay(training, RunOptions())

    def say(sentence: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {site}: {sentence}", file=sys.stderr, flush=True)

    options = AgentOptions(folder, checkpoint_every, keep_state, federation)
    ended, stopped_by = run_site(known, own, samples, options, show, say)
    advice = "; run the same command again to resume" if ended == "interrupted" else ""
    print(f"{ended}: records, model and journal are in {folder}{secret_advice(folder)}{advice}")
    if ended == "interrupted":
        sys.exit(128 + (stopped_by or signal.SIGINT))
