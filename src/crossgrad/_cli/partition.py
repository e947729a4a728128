"""`crossgrad partition`: which agent holds how many samples of each class."""

from pathlib import Path
from typing import Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Agents, Options, Picture, Plugins, Seed, check_picture, chosen


@app.command(
    epilog=examples(
        "crossgrad partition class --agents 10",
        "crossgrad partition dirichlet alpha=0.1 --data mnist --picture split.png",
    )
)
def partition(
    name: Annotated[str, typer.Argument(help="A partition of `crossgrad list partitions`.")],
    options: Options = None,
    agents: Agents = 10,
    seed: Seed = 0,
    data: Annotated[str, typer.Option(help="The data set.")] = "digits",
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="The data set's folder.")] = None,
    picture: Picture = None,
    plugin: Plugins = None,
) -> None:
    """Show how many samples of each class every agent holds."""
    from crossgrad.data import draw_partition, load
    from crossgrad.tasks import infer_task

    rule = chosen("partition", name, options)
    check_picture(picture)
    train = load(data, root).train
    task = infer_task([train.labels])
    kinds = task.kinds(train.labels)
    divided = rule(kinds, agents, seed, task.classes)
    print(divided.table(kinds, task.classes))
    if picture is not None:
        draw_partition(divided.counts(kinds, task.classes), picture)
        print(f"Drawn in {picture}")
