"""`crossgrad federation init`, `sign`, `publish` and `revoke`: the federation's authority."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples

federation_app = typer.Typer(
    no_args_is_help=True,
    help="Manage a federation of sites: sign certificates, rehearse on one machine, use the results of a run.",
    epilog=examples("crossgrad federation init authority", "crossgrad federation try federation.toml"),
)
app.add_typer(federation_app, name="federation")

Authority = Annotated[Path, typer.Option(metavar="DIR", help="The authority's folder.")]


@federation_app.command(
    epilog=examples("crossgrad federation init authority", "crossgrad federation init authority --name wards")
)
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The authority's folder.")] = Path("authority"),
    name: Annotated[str, typer.Option(help="The federation's name.")] = "federation",
) -> None:
    """Make the authority that signs the sites' certificates. Keep its folder private."""
    from crossgrad.federation.authority import make_authority

    make_authority(folder, name)
    print(f"Authority: {folder}. Its key, authority.key, signs certificates: keep it to yourself.")


@federation_app.command(
    epilog=examples(
        "crossgrad federation sign site.csr --name hospital-a",
        "crossgrad federation sign site.csr --name hospital-a --days 90",
    )
)
def sign(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="The site's certificate request.")],
    name: Annotated[str, typer.Option(help="The site that you received it from.")],
    authority: Authority = Path("authority"),
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long the certificate is valid.")] = 365,
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder for the files that go back to the site.")
    ] = None,
) -> None:
    """Sign a site's request. Send the files that this writes back to the site, for its folder."""
    from crossgrad.federation.authority import install, sign_request

    folder = into or Path(f"for-{name}")
    certificate = sign_request(authority, request, name, days)
    folder.mkdir(parents=True, exist_ok=True)
    install(folder, certificate, authority)
    print(f"Send {name} the three files in {folder}, to be put beside its key.")


@federation_app.command(
    epilog=examples(
        "crossgrad federation publish federation.toml",
        "crossgrad federation publish federation.toml --authority /srv/authority",
    )
)
def publish(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="The file, with a higher `version`.")],
    authority: Authority = Path("authority"),
) -> None:
    """Sign a new version of the federation's file, such as one with more sites, for a running federation.

    Copy the file and its signature over those of one site. Its agent reads them after a step and passes them on.
    """
    from crossgrad.federation.reading import read_federation
    from crossgrad.federation.versions import publish as sign_version

    signature = sign_version(authority, federation)
    version, files = read_federation(federation).version, f"{federation.name} and {signature.name}"
    if version == 1:
        print(f"Version 1 is for sites that start: give {files} to all. Those at work take a higher `version` only.")
    else:
        print(f"Version {version}: put {files} in place of a running site's own; it hands them on to the others.")


@federation_app.command(
    epilog=examples(
        "crossgrad federation revoke hospital-c",
        "crossgrad federation revoke hospital-c --authority /srv/authority",
    )
)
def revoke(
    name: Annotated[str, typer.Argument(help="The name of the site.")],
    authority: Authority = Path("authority"),
) -> None:
    """Revoke all certificates of a site. Send the list that this writes to all other sites."""
    from crossgrad.federation.authority import revoke as revoke_site

    path = revoke_site(authority, name)
    print(f"Send {path} to all sites, to be put beside their keys. Their agents then refuse {name}.")
