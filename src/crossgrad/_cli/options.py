"""Options that several commands share. Each is declared once, as a field of a dataclass or as an annotated type."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Agents = Annotated[int, typer.Option("--agents", "-n", help="Number of agents.")]
Changes = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings that replace those of the file.")
]
ExperimentFile = Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment's file.")]
Options = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Options of it, such as those that `crossgrad list NAME` shows."),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder in which the run's own folder is made.")]
Picture = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also draw a picture into this .png, .svg or .pdf file.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The seed of all random numbers.")]
SweepFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep.")]
CheckpointEvery = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="Time between checkpoints; 0: after every step.")
]
KeepMemory = Annotated[
    bool,
    typer.Option(
        help="Whether malloc keeps freed memory for later passes; CROSSGRAD_KEEP_MEMORY=off also turns it off."
    ),
]


def _load_plugins(files: list[Path] | None) -> list[Path] | None:
    if files:
        from crossgrad.plugins import load_plugin

        for file in files:
            load_plugin(file)
    return files


Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        callback=_load_plugins,
        help="A Python file that adds models, data sets and so on by crossgrad.register. Can be repeated.",
    ),
]


def _check_log(names: list[str] | None) -> list[str] | None:
    if names:
        from crossgrad._logging.logger import check_loggers

        check_loggers(names)
    return names


Log = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="LOGGER",
        callback=_check_log,
        help="Also send records to tensorboard, mlflow, wandb or csv. Can be repeated.",
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """Options of the commands that run one experiment."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the path of the run's folder.")] = (
        False
    )
    json: Annotated[bool, typer.Option("--json", help="Print records as JSON lines.")] = False
    checkpoint_every: CheckpointEvery = 60.0
    keep_state: Annotated[
        bool, typer.Option("--keep-state", help="At the end, keep the last checkpoint, which has all agents' models.")
    ] = False
    lost_after: Annotated[
        float,
        typer.Option(
            min=1, metavar="SECONDS", help="How long another process may give no sign of life before it counts as lost."
        ),
    ] = 30.0
    processes: Annotated[
        str | None,
        typer.Option(
            "--processes",
            "-p",
            metavar="N",
            help="Divide the agents among this many processes; auto: choose the number.",
        ),
    ] = None
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print to stderr how memory and gradients are handled.")
    ] = False
    log: Log = None
    keep_memory: KeepMemory = True
    plugin: Plugins = None


@dataclass(frozen=True)
class SweepOptions:
    """Options of the commands that run the cells of a grid."""

    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Number of processes; default: one for each core.")
    ] = None
    checkpoint_every: CheckpointEvery = 60.0
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ENGINE", help="Submit cells as jobs with submitit: slurm, or local to try it out."),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="An option of the jobs of --cluster, such as timeout_min=60. Can be repeated."
        ),
    ] = None
    log: Log = None
    keep_memory: KeepMemory = True
    plugin: Plugins = None


def takes(kind: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of a dataclass as options; it receives them as one argument called `options`."""
    hints = get_type_hints(kind, include_extras=True)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        given = inspect.signature(command).parameters.values()
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in given if p.name != "options"]
        shared = [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
            for f in dataclasses.fields(kind)
        ]

        @functools.wraps(command)
        def wrapper(**values: Any) -> None:
            mine = {parameter.name: values.pop(parameter.name) for parameter in own}
            command(**mine, options=kind(**values))

        wrapper.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *shared)}
        return wrapper

    return decorate


def chosen(kind: str, name: str, options: list[str] | None) -> Any:
    """The graph or partition that a name and `key=value` options describe."""
    from crossgrad.experiments.config import choose
    from crossgrad.experiments.files import CHOICES, REQUIRED, apply_change

    table: dict[str, Any] = {"name": name}
    for option in options or []:
        apply_change(table, option)
    return choose(REQUIRED[kind], table, kind, CHOICES)


def check_picture(picture: Path | None) -> None:
    """Raise unless a picture can be written to this file."""
    if picture is not None and picture.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise ValueError(f"--picture must name a .png, .svg or .pdf file; found {picture}.")
    if picture is not None and picture.exists():
        raise ValueError(
            f"--picture must name a new file; {picture} exists already and is not overwritten. Name another."
        )
