"""`crossgrad site init`: a site's key, and its request for a certificate."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples

site_app = typer.Typer(
    no_args_is_help=True,
    help="Make the identity of a site in a federation.",
    epilog=examples("crossgrad site init hospital-a", "crossgrad site init hospital-b --into /etc/crossgrad"),
)
app.add_typer(site_app, name="site")


@site_app.callback()
def _site() -> None:
    pass


@site_app.command(
    epilog=examples("crossgrad site init hospital-a", "crossgrad site init hospital-b --into /etc/crossgrad")
)
def init(
    name: Annotated[str, typer.Argument(help="The site's name in federation.toml.")],
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="The site's folder; default: its name.")] = None,
) -> None:
    """Make a private key, which stays at the site, and a certificate request to send to the authority."""
    from crossgrad.federation.authority import make_request

    request = make_request(into or Path(name), name)
    print(f"Key (stays here): {request.parent / 'site.key'}")
    print(f"Request: {request}. Send it to who runs the federation's authority, who signs it:")
    print(f"  crossgrad federation sign {request.name} --name {name}")
