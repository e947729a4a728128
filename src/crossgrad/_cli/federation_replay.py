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
        "crossgrad federation replay federation.toml runs/a runs/b --data scans/a --data scans/b",
    )
)
def replay(
    federation: FederationFile,
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="The run folders of all sites, in the order of the file.")
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="A site's own data, as its agent has it; once for each site."),
    ] = None,
) -> None:
    """Repeat the training of all sites from their journals, in one process, and compare the models bit by bit.

    It needs every site's data, so it is for runs on a public data set, and for trials.
    """
    from crossgrad.federation.reading import read_federation

    if not report_replay(read_federation(federation), folders, data):
        sys.exit(1)


def report_replay(federation: "Federation", folders: Sequence[Path], own_data: Sequence[str] | None = None) -> bool:
    """Print the result of every journal; return whether all models were repeated bit by bit."""
    from crossgrad._runs.folder import RunFolder
    from crossgrad.federation.agent import trained_on_own_data
    from crossgrad.federation.data import data_of_site
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
    if own_data and len(own_data) != len(folders):
        raise ValueError(
            f"--data must be given once for each of {len(folders)} sites; found {len(own_data)}. Name all."
        )
    if not own_data and (private := [folder for folder in folders if trained_on_own_data(folder)]):
        raise ValueError(
            f"a replay needs the data that every site has trained on; that of {private[0]} is the site's own. Name "
            "every site's by --data, in the order of the file."
        )
    journals = {agent: read_journal(folder / JOURNAL) for agent, folder in enumerate(folders)}
    secrets = {agent: secret_of(folder) for agent, folder in enumerate(folders)}
    if own_data:
        data = [data_of_site(where, federation, agent) for agent, where in enumerate(own_data)]
    else:
        data = data_of_versions(versions)
    _use_threads_of(folders)
    found = repeat(federation, journals, data, secrets, versions[:-1])
    for each in found:
        name = federation.sites[each.agent].name
        how = "did not come to its end" if each.journal is None else "the same bits" if each.same else "OTHER BITS"
        print(f"{name}: {each.steps} steps repeated from its journal, {how}")
        if not each.same and each.missing:
            print(
                f"  neighbours began {each.missing} steps with it that its journal does not have; if its folder was "
                "removed meanwhile, its run cannot be repeated"
            )
        if not each.same and (changed := RunFolder(folders[each.agent]).changed_versions()):
            print(f"  the last bits may differ where {'; '.join(changed)}")
    return all(each.same for each in found)


def _use_threads_of(folders: Sequence[Path]) -> None:
    """Compute with as many threads as the sites did, if all had the same number: the last bits depend on it."""
    import torch

    from crossgrad._runs.folder import RunFolder

    if len(threads := {RunFolder(folder).threads for folder in folders}) == 1 and (number := threads.pop()) is not None:
        torch.set_num_threads(number)
