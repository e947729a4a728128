"""`crossgrad doctor`: find what could keep a site from taking part."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.agent import FederationFile, IdentityFolder, Insecure, Site, site_identity
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
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run's folder, as for `crossgrad agent`.")] = None,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long to try to reach neighbours, and to answer them.")
    ] = 10.0,
    insecure: Insecure = False,
) -> None:
    """Check file, certificate, port, clock, data and the connection to each neighbour; say how to fix each problem."""
    from crossgrad.federation import doctor as checks
    from crossgrad.federation.data import data_of_site
    from crossgrad.federation.reading import read_federation
    from crossgrad.federation.start import data_of_experiment

    all_good = True

    def show(finding: checks.Finding) -> None:
        nonlocal all_good
        all_good = all_good and finding.good
        print(f"{'ok   ' if finding.good else 'FAULT'} {finding.sentence}", flush=True)

    known = read_federation(federation)
    number = known.number(site)
    digest = known.digest[:12]
    show(checks.Finding(True, f"file: {known.name}, {len(known.sites)} sites, {known.graph.name}, digest {digest}"))
    try:
        own = site_identity(known, site, identity, insecure)
    except ValueError as error:
        show(checks.Finding(False, f"identity: {error}"))
        sys.exit(1)  # no neighbour would accept the connection
    show(checks.certificate_dates(own))
    show(checks.revocations(own))
    show(checks.folder(out or Path("runs") / f"{known.name}-{site}"))
    try:
        samples = data_of_experiment(known)[number] if data is None else data_of_site(data, known, number)
        show(checks.data(known, number, samples))
    except ValueError as error:
        show(checks.Finding(False, f"data: {error}"))
    neighbours, until = checks.Neighbours(known, own), time.monotonic() + wait
    listening, server = checks.port(known, own, neighbours.told, neighbours.refusals)
    show(listening)
    try:
        while not neighbours.look() and time.monotonic() < until:
            time.sleep(0.5)
        for finding in neighbours.findings():
            show(finding)
        time.sleep(max(0.0, until - time.monotonic()))  # others may still want to ask
    finally:
        if server is not None:
            server.stop(0.5).wait()  # type: ignore[attr-defined]
    if not all_good:
        sys.exit(1)
