"""`crossgrad federation try`: all sites of a federation on this machine."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.agent import FederationFile
from crossgrad._cli.app import examples
from crossgrad._cli.federation import federation_app


@federation_app.command(
    "try",
    epilog=examples(
        "crossgrad federation try federation.toml",
        "crossgrad federation try federation.toml --into /tmp/rehearsal",
    ),
)
def try_federation(
    federation: FederationFile,
    into: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for all files.")] = Path("rehearsal"),
) -> None:
    """Start all sites on this machine with real certificates, and check the result by a replay of the journals.

    Every site uses its part of the experiment's public data set.
    """
    from crossgrad._cli.federation_replay import report_replay
    from crossgrad.federation.reading import read_federation
    from crossgrad.federation.rehearsal import Rehearsal

    if into.exists() and any(into.iterdir()):
        raise ValueError(f"{into} must be empty; it is not. Name a new folder with --into.")
    rehearsal = Rehearsal.prepare(read_federation(federation), into)
    began = time.monotonic()
    try:
        for entry in rehearsal.federation.sites:
            rehearsal.start(entry.name)
        print(f"{len(rehearsal.processes)} sites have been started; what they say is in {into}/runs/*.log")
        statuses = rehearsal.wait()
    except KeyboardInterrupt:
        rehearsal.stop()
        sys.exit(130)
    failed = sorted(site for site, status in statuses.items() if status)
    if failed:
        raise ValueError(
            f"every site must end by itself; {', '.join(failed)} ended with an error. See {into}/runs/{failed[0]}.log."
        )
    print(f"All have ended after {time.monotonic() - began:.0f} s.")
    folders = [rehearsal.run_folder(entry.name) for entry in rehearsal.federation.sites]
    if not report_replay(rehearsal.federation, folders):
        sys.exit(1)
