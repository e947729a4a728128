"""`crossgrad federation replay`: repeat a federation's run from its journals."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossgrad._cli.agent import FederationFile
from crossgrad._cli.app import examples
from crossgrad._cli.federation import federation_app

if TYPE_CHECKING:
    from crossgrad.federation.file import Federation


@federation_app.command(
    epilog=examples(
        "crossgrad federation replay rehearsal/federation.toml rehearsal/runs/*/",
        "crossgrad federation replay federation.toml runs/a runs/b runs/c",
    )
)
def replay(
    federation: FederationFile,
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="The run folders of all sites, in the order of the file.")
    ],
) -> None:
    """Repeat the training of all sites from their journals, in one process, and compare the models bit by bit.

    It needs every site's data, so it is for runs on a public data set.
    """
    from crossgrad.federation.reading import read_federation

    if not report_replay(read_federation(federation), folders):
        sys.exit(1)


def report_replay(federation: "Federation", folders: Sequence[Path]) -> bool:
    """Print the result of every journal; return whether all models were repeated bit by bit."""
    from crossgrad.federation.journal import JOURNAL, read_journal
    from crossgrad.federation.replay import replay as repeat
    from crossgrad.federation.secret import secret_of
    from crossgrad.federation.start import data_of_versions
    from crossgrad.federation.versions import versions_of

    versions = versions_of(federation, folders)
    federation = versions[-1]
    if len(folders) != len(federation.sites):
        raise ValueError(
            f"each of the {len(federation.sites)} sites must have its folder; found {len(folders)}. Name them all."
        )
    journals = {agent: read_journal(folder / JOURNAL) for agent, folder in enumerate(folders)}
    secrets = {agent: secret_of(folder) for agent, folder in enumerate(folders)}
    found = repeat(federation, journals, data_of_versions(versions), secrets, versions[:-1])
    for each in found:
        name = federation.sites[each.agent].name
        how = "did not come to its end" if each.journal is None else "the same bits" if each.same else "OTHER BITS"
        print(f"{name}: {each.steps} steps repeated from its journal, {how}")
    return all(each.same for each in found)
