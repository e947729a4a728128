"""`crossgrad report`: a page about a run, a sweep or a reproduction, in a file or live."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Plugins


@app.command(
    epilog=examples(
        "crossgrad report runs/2026-01-31_12-00-00-digits-ring",
        "crossgrad report sweeps/digits --out digits.html",
        "crossgrad report sweeps/digits --serve",
        "crossgrad report runs/wards-hospital-a runs/wards-hospital-b",
    )
)
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="The folder of a run, a sweep or a reproduction; or several sites' runs."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="The file to write; default: DIR/report.html, or report.html for several folders."
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the page live in a browser on this machine, and write no file.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port for --serve; 0: any free port.")] = 8321,
    plugin: Plugins = None,
) -> None:
    """Write one HTML file with tables, curves, graph and settings that opens in any browser, offline."""
    from rich.console import Console

    from crossgrad._cli.console import say
    from crossgrad._report.page import write_page
    from crossgrad._report.serve import HERE, make_server

    if serve and out is not None:
        raise ValueError("--serve writes no file, so it goes without --out; found both. Leave one out.")
    if not serve:
        print(write_page(folders, out or (folders[0] if len(folders) == 1 else Path()) / "report.html"))
        return
    with make_server(folders, port) as server:
        say(
            Console(stderr=True),
            f"http://{HERE}:{server.server_port}/ shows {', '.join(map(str, folders))} live. Ctrl-C ends it.",
        )
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            say(Console(stderr=True), "Ended.")
