"""`crossgrad federation average`: the average of several sites' models."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import examples
from crossgrad._cli.federation import federation_app


@federation_app.command(
    epilog=examples(
        "crossgrad federation average runs/wards-hospital-a runs/wards-hospital-b",
        "crossgrad federation average a.safetensors b.safetensors --out averaged.safetensors",
    )
)
def average(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run folders, or model files.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path("averaged.safetensors"),
) -> None:
    """Average the models of several sites."""
    from crossgrad.federation.average import average_models

    average_models(folders, out)
    print(f"The average of {len(folders)} models: {out}")
