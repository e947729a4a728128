"""Help, lists, and commands that are not understood."""

import re
import subprocess
import sys

import pytest

from crossgrad import __version__
from crossgrad._training.schedule import SCHEDULES
from crossgrad.algorithms import AGGREGATIONS, ALGORITHMS, FAMILIES, RULES
from crossgrad.codecs import CODECS
from crossgrad.data import AUGMENTATIONS, DATASETS, PARTITIONS
from crossgrad.graphs import GRAPHS
from crossgrad.guards import ROBUST_RULES
from crossgrad.models.zoo import MODELS
from crossgrad.tasks import METRICS, TASKS

WAIT = 100  # seconds for a process, which takes three on a machine that has nothing else to do
COMMANDS = [
    "run",
    "resume",
    "sweep",
    "tune",
    "benchmark",
    "advise",
    "query",
    "pack",
    "reproduce",
    "theory",
    "report",
    "demo",
    "list",
    "graph",
    "partition",
    "data",
    "data fetch",
    "data where",
    "site init",
    "agent",
    "doctor",
    "federation",
    "federation init",
    "federation sign",
    "federation publish",
    "federation revoke",
    "federation try",
    "federation status",
    "federation replay",
    "federation average",
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help_with_examples_on_lines_of_their_own(crossgrad, command):
    answer = crossgrad(*command.split(), "--help")
    assert answer.status == 0
    lines = [line.strip() for line in answer.out.splitlines()]
    examples = lines[lines.index("Examples:") + 1 :]
    assert sum(line.startswith(f"crossgrad {command}") for line in examples) >= 2
    assert all(len(line) <= 80 for line in answer.out.splitlines())
    assert not any("toml" in line and not line.startswith("crossgrad") for line in examples), "an example is broken up"


def test_the_help_is_shown_where_a_command_is_missing(crossgrad):
    for arguments in ([], ["data"]):
        answer = crossgrad(*arguments)
        assert answer.status in (0, 2)
        assert "Usage: " in answer.out
        assert "Examples:" in answer.out


def test_the_version_is_that_of_the_package(crossgrad):
    assert crossgrad("--version") == (0, f"crossgrad {__version__}\n", "")


def test_help_and_version_come_without_importing_torch():
    code = (
        "import sys; from crossgrad._cli import main\ntry: main()\nexcept SystemExit: sys.exit('torch' in sys.modules)"
    )
    for option in ("--help", "--version"):
        assert subprocess.run([sys.executable, "-c", code, option], capture_output=True, timeout=WAIT).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["lisst"], "Did you mean 'list'"),
        (["--nonsense"], "No such option"),
        (["run"], "Missing argument 'EXPERIMENT.toml'"),
        (["graph"], "Missing argument"),
        (["run", "small.toml", "--agents", "3"], "No such option"),
        (["graph", "ring", "--agents", "many"], "--agents"),
        (["graph", "ring", "--seed", "-1"], "--seed"),
        (["demo", "--steps", "0"], "--steps"),
        (["demo", "--jobs", "0"], "--jobs"),
    ],
)
def test_a_command_that_is_not_understood_says_how_to_get_help(crossgrad, arguments, hint):
    answer = crossgrad(*arguments)
    assert answer.status == 2
    assert hint in answer.err
    assert "--help" in answer.err
    assert "Traceback" not in answer.err


LISTS = {
    "algorithms": ALGORITHMS, "models": MODELS, "data": DATASETS, "graphs": GRAPHS, "partitions": PARTITIONS,
    "codecs": CODECS, "tasks": TASKS, "metrics": METRICS, "schedules": SCHEDULES,
    "augmentations": AUGMENTATIONS, "robust-rules": ROBUST_RULES, "aggregations": AGGREGATIONS, "optim-rules": RULES,
}  # fmt: skip


@pytest.mark.parametrize("what", LISTS)
def test_a_list_has_every_name_with_a_line_about_it(crossgrad, what):
    answer = crossgrad("list", what)
    assert answer.status == 0
    assert answer.out.splitlines()[0].strip() == what
    for name in LISTS[what]:
        assert re.search(rf"^{re.escape(name)} +\S+", answer.out, re.MULTILINE), name


def test_the_list_of_everything_has_all_lists(crossgrad):
    assert crossgrad("list").out == "".join(crossgrad("list", what).out for what in LISTS)


@pytest.mark.parametrize("name", [*ALGORITHMS, "ring", "base-graph", "digits", "quantised", "mlp", "edge-list"])
def test_whatever_has_a_name_is_described(crossgrad, name):
    answer = crossgrad("list", name)
    assert answer.status == 0
    assert answer.out.splitlines()[0] == name
    assert ">>>" not in answer.out, "Python is of no use here"
    if name in ALGORITHMS:
        for part in ("Rule", "Reference:", "arXiv:", "Needs: ", "Cost per step: ", "ptions"):
            assert part in answer.out


def test_every_algorithm_is_in_one_family():
    assert sorted(name for names in FAMILIES.values() for name in names) == sorted(ALGORITHMS)


@pytest.mark.parametrize(
    ("name", "cost"),
    [("dpsgd", "1 P"), ("gradient-tracking", "2 P"), ("cga", "2 P"), ("compcga", "1.03 P"), ("edm", "1 P")],
)
def test_costs_are_those_of_the_literature(crossgrad, name, cost):
    assert f"Cost per step: {cost} numbers" in crossgrad("list", name).out


def test_a_list_of_nonsense_is_refused(crossgrad, is_one_sentence):
    assert is_one_sentence(crossgrad("list", "nonsense"), "'nonsense'", *LISTS)
    assert is_one_sentence(crossgrad("list", "graph"), "Did you mean 'graphs'?")
