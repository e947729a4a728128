"""`crossgrad report`: a page of a run, a sweep or a reproduction, in a file or live."""

from pathlib import Path

from rich.console import Console

from crossgrad._cli.console import say
from crossgrad._report.page import write_page
from crossgrad._report.serve import HERE, make_server


def write_report(folder: Path, out: Path | None) -> None:
    """Write the page, and say where it is."""
    path = write_page(folder, out or folder / "report.html")
    print(path)


def serve_report(folder: Path, port: int) -> None:
    """Show the page live until Ctrl-C."""
    with make_server(folder, port) as server:
        say(Console(stderr=True), f"http://{HERE}:{server.server_port}/ shows {folder} live. Ctrl-C ends it.")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            say(Console(stderr=True), "Ended.")
