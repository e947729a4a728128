"""`crossgrad doctor`: what could keep a site from taking part."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.agent import FederationFile, IdentityFolder, Site
from crossgrad._cli.app import app, examples


@app.command(
    epilog=examples(
        "crossgrad doctor federation.toml --site hospital-a",
        "crossgrad doctor federation.toml --site hospital-a --data /srv/scans --wait 60",
    )
)
def doctor(
    federation: FederationFile,
    site: Site,
    data: Annotated[str | None, typer.Option(metavar="DIR", help="The site's own data.")] = None,
    identity: IdentityFolder = None,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Answer neighbours' doctors for so long.")
    ] = 5.0,
) -> None:
    """Look at file, certificate, port, clock, data and the way to each neighbour; say what to do about each fault."""
    from crossgrad.federation import doctor as checks
    from crossgrad.federation.data import data_of_site
    from crossgrad.federation.file import read_federation
    from crossgrad.federation.identity import Identity
    from crossgrad.federation.start import data_of_experiment

    known = read_federation(federation)
    number = known.number(site)
    print(f"ok    file: {known.name}, {len(known.sites)} sites, {known.graph.name}, digest {known.digest[:12]}")
    own = Identity.load(identity or Path(site), site)
    found = [checks.certificate_dates(own)]
    samples = data_of_experiment(known)[number] if data is None else data_of_site(data, known, number)
    found.append(checks.data(known, samples))
    listening, server = checks.port(known, own)
    found.append(listening)
    try:
        time.sleep(wait)
        for neighbour in known.neighbours(number):
            found += checks.neighbour(known, own, neighbour)
        time.sleep(wait)
    finally:
        if server is not None:
            server.stop(0.5).wait()  # type: ignore[attr-defined]
    for finding in found:
        print(f"{'ok  ' if finding.good else 'FAULT'} {finding.sentence}")
    if not all(finding.good for finding in found):
        sys.exit(1)
