"""`crossgrad advise`: what to begin with, according to the benchmark."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossgrad._cli.app import app, examples
from crossgrad._cli.options import Agents

if TYPE_CHECKING:
    from crossgrad._benchmark.advice import Advice, Question


@app.command(
    epilog=examples(
        "crossgrad advise --agents 10 --split class --graph ring",
        "crossgrad advise -n 12 --split class --bandwidth '20 Mbit/s' --latency '50 ms'",
        "crossgrad advise -n 10 --split class --parameters 100000 --out first.toml",
    )
)
def advise(
    agents: Agents,
    split: Annotated[
        str, typer.Option(help="The split that is most like your data: class (one class per agent), dirichlet or iid.")
    ],
    graph: Annotated[
        str | None, typer.Option(help="ring, base-3, bipartite, exponential or tree; default: whichever is best.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Bandwidth of an agent's connection, such as '100 Mbit/s'.")
    ] = None,
    latency: Annotated[str | None, typer.Option(help="Latency of a link, one way, such as '20 ms'.")] = None,
    parameters: Annotated[
        int | None,
        typer.Option(min=1, help="Number of parameters of your model; default: that of the benchmark's model."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.toml", help="The experiment file to write.")] = Path(
        "advised.toml"
    ),
) -> None:
    """Recommend an algorithm, graph, codec, rounds and step size to begin with, and write the experiment.

    The advice is based on the benchmark's results for digits and a small model; the rows used are printed.
    """
    from crossgrad._benchmark.advice import BENCHMARK_PARAMETERS, Question, advised_experiment
    from crossgrad._benchmark.advice import advise as advice_on
    from crossgrad._benchmark.rows import kept_rows
    from crossgrad._storage import atomic
    from crossgrad._training.validate import check_graph
    from crossgrad.experiments.files import to_toml

    if out.exists():
        raise ValueError(f"--out must name a new file; {out} exists already and is not overwritten. Name another.")
    if not out.parent.is_dir():
        raise ValueError(f"--out must name a file in a folder that exists; {out.parent} is none. Make it first.")
    question = Question(agents, split, graph, bandwidth, latency, parameters or BENCHMARK_PARAMETERS)
    found = advice_on(question, kept_rows())
    experiment = advised_experiment(question, found.row)
    check_graph(experiment.method, experiment.build_graph(), experiment.agents)
    _print(question, found, BENCHMARK_PARAMETERS)
    atomic.write(out, [to_toml(experiment).encode()])
    print(f"Experiment: {out} (crossgrad run {out})")


def _print(question: "Question", found: "Advice", usual: int) -> None:
    from rich.console import Console

    from crossgrad._benchmark.combinations import methods
    from crossgrad._cli.console import say
    from crossgrad._cli.tuned_runs import standings_table

    console, row = Console(), found.row
    settings = methods()[row.labels["algorithm"]]
    gossip = settings.get("gossip", {})
    codec = gossip.get("codec")
    sent = "exact messages" if codec is None else f"{codec['bits']}-bit differences"
    rounds = gossip.get("rounds", 1)
    averaged = (
        "averages along a tree" if gossip.get("tree") else f"{rounds} gossip round{'s' if rounds > 1 else ''} a step"
    )
    momentum = "" if row.momentum is None else f", momentum {row.momentum:g}"
    say(
        console,
        f"Begin with {settings['algorithm']['name']} on {row.labels['graph']}, "
        f"{sent}, {averaged}, step size {row.lr:g}{momentum}.",
    )
    cost = f"{question.megabytes(row):.3g} MB sent per agent"
    if question.has_links:
        cost += f", about {question.communication_seconds(row):.3g} s of communication"
    say(console, f"In {row.rounds} rounds: {cost}, for a model of {question.parameters:,} parameters.")
    say(console, f"It rests on these rows, of {row.labels['agents']} agents ({row.labels['split']}), digits:")
    console.print(standings_table(list(found.rests_on)))
    say(
        console,
        f"They are of a model with {usual:,} parameters. Tune the step size for yours: crossgrad tune.",
    )
