"""`crossgrad federation init`, `sign`, `publish` and `revoke`: the federation's authority."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples

federation_app = typer.Typer(
    no_args_is_help=True,
    help="A federation of sites: its authority, a rehearsal on one machine, and what comes of a run.",
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
    """Make the authority that signs the sites' certificates. Keep its folder to yourself."""
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
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="The site's request.")],
    name: Annotated[str, typer.Option(help="The site that you received it from.")],
    authority: Authority = Path("authority"),
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long the certificate is valid.")] = 365,
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to put what the site gets back.")] = None,
) -> None:
    """Sign a site's request; what this writes goes back to the site, into its folder."""
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
    """Sign a later version of the federation's file, so that a run that goes on takes it: with further sites.

    Put both files in place of one site's own; its agent takes them after its step, and hands them on.
    """
    from crossgrad.federation.versions import publish as sign_version

    signature = sign_version(authority, federation)
    print(
        f"Put {federation.name} and {signature.name} in place of a running site's own; it hands them on to the others."
    )


@federation_app.command(
    epilog=examples(
        "crossgrad federation revoke hospital-c",
        "crossgrad federation revoke hospital-c --authority /srv/authority",
    )
)
def revoke(
    name: Annotated[str, typer.Argument(help="The site.")],
    authority: Authority = Path("authority"),
) -> None:
    """Revoke all certificates of a site; the list that this writes must reach the other sites."""
    from crossgrad.federation.authority import revoke as revoke_site

    path = revoke_site(authority, name)
    print(f"Send {path} to all sites, to be put beside their keys. New connections of {name} are then refused.")
