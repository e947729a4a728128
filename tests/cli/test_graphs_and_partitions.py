"""Graphs and partitions are described and drawn, or refused in a sentence."""

import re
import struct
from pathlib import Path

import pytest

from crossgrad.data import PARTITIONS
from crossgrad.graphs import GRAPHS

SIZED = {
    "edge-list", "weight-matrix", "hyper-hypercube", "hypercube", "petersen", "dyck", "davis", "random-regular",
    "random-regular-each-step",
    "small-world", "global-averaging", "base-graph", "simple-base-graph", "equi-dynamic",
}  # fmt: skip


@pytest.mark.parametrize(("name", "agents"), [("petersen", 10), ("dyck", 32), ("davis", 32), ("hypercube", 16)])
def test_graphs_of_few_sizes_are_described_or_say_their_size(crossgrad, name, agents):
    assert crossgrad("graph", name, "--agents", agents).status == 0
    refused = crossgrad("graph", name, "--agents", 12)
    assert refused.status == 2
    assert "agents" in refused.err


def test_a_graph_says_after_how_many_steps_the_mean_is_exact(crossgrad):
    assert re.search(r"exact mean +after 4 steps", crossgrad("graph", "base-graph", "neighbours=2", "-n", 10).out)
    assert re.search(r"exact mean +after 1 step *\n", crossgrad("graph", "fully-connected", "-n", 10).out)
    assert re.search(r"exact mean +never", crossgrad("graph", "ring", "-n", 10).out)


@pytest.mark.parametrize("name", ["base-graph", "exponential"])
def test_a_graph_is_drawn(crossgrad, tmp_path, name):
    picture = tmp_path / "graph.png"
    assert f"Drawn in {picture}" in crossgrad("graph", name, "--picture", picture).out
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert crossgrad("graph", name, "--picture", picture).status == 2  # nothing is overwritten


@pytest.mark.parametrize(
    ("name", "unfit", "remedy"),
    [
        ("exponential", "cga", "Use SGP, an undirected graph such as a ring"),
        ("base-graph", "edm", "Use a fixed graph"),
        ("base-graph", "choco", "Use a fixed graph"),
        ("balanced-bipartite", "gut", "Set lazy = 0.5"),
        ("ring", "relaysgd", "Use binary-tree, double-binary-tree, chain or star"),
    ],
)
def test_a_graph_names_the_algorithms_that_do_not_fit_with_the_reason_and_the_remedy(crossgrad, name, unfit, remedy):
    said = re.findall(r"^It does not fit (.*?),(?: each of)? which (.*)$", crossgrad("graph", name).out, re.MULTILINE)
    assert [reason for names, reason in said if unfit in names.split(", ") and remedy in reason] != []
    assert not [names for names, _ in said if {"dpsgd", "sgp"} & {*names.split(", ")}]


@pytest.mark.parametrize("agents", [1, 2, 41])
@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in SIZED])
def test_every_graph_is_described(crossgrad, name, agents):
    answer = crossgrad("graph", name, "--agents", agents)
    assert answer.status == 0
    facts = dict(re.findall(r"^(\S.*?)  +(\S.*?) *$", answer.out, re.MULTILINE))
    assert facts["agents"] == str(agents)
    assert facts["messages per step"] == ("0" if agents == 1 else "2" if agents == 2 else facts["messages per step"])
    assert 0 <= float(facts["sqrt(rho)"]) < 1
    assert float(facts["sqrt(rho)"]) + float(facts["spectral gap"]) == pytest.approx(1, abs=1e-3)
    assert ("Weights" in answer.out) == (agents <= 12)
    assert (" is directed" in answer.out) == ("exponential" in name and agents == 41)


def test_the_weights_of_twelve_agents_fit_into_eighty_columns(crossgrad):
    lines = crossgrad("graph", "fully-connected", "--agents", 12).out.splitlines()
    assert lines[1:13] == [" ".join(["0.083"] * 12)] * 12


def test_a_graph_takes_options_and_a_seed(crossgrad):
    sparse, dense, again = (
        crossgrad("graph", "erdos-renyi", f"probability={p}", "-n", 20, "--seed", 3).out for p in (0.3, 0.9, 0.3)
    )
    assert sparse == again != dense
    assert crossgrad("graph", "erdos-renyi", "probability=0.3", "-n", 20, "--seed", 4).out != sparse


def test_a_slow_graph_is_warned_of(crossgrad):
    assert (
        "Warning: it mixes slowly: differences between agents shrink by a factor e in about 128 steps"
        in crossgrad("graph", "ring", "-n", 41).out
    )
    assert "Warning" not in crossgrad("graph", "ring", "-n", 10).out


def test_a_graph_that_lets_averages_drift_is_warned_of(crossgrad):
    Path("one way.txt").write_text("0 1\n1 2\n2 0\n0 2\n")
    answer = crossgrad("graph", "edge-list", "path=one way.txt", "directed=true", "-n", 3)
    assert answer.status == 0
    assert "column-stochastic" in answer.out
    assert "It does not fit dpsgd, dpmsgd, " in answer.out
    assert "needs weights whose rows and columns each sum to 1, or the average of all models drifts" in answer.out
    Path("rows.txt").write_text("0.5 0.5 0\n0 0.5 0.5\n0.4 0.2 0.4\n")
    answer = crossgrad("graph", "weight-matrix", "path=rows.txt", "-n", 3)
    assert answer.status == 0
    assert "row-stochastic" in answer.out
    assert "no algorithm accepts it" in answer.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rign"], ["graph.name: there is no 'rign'", "Did you mean 'ring'?"]),
        (["ring", "--agents", "0"], ["agents", "found 0"]),
        (["ring", "--agents", "-3"], ["agents", "found -3"]),
        (["ring", "--agents", "100000000"], ["agents must be at most 1,000,000"]),
        (["fully-connected", "--agents", "1000000"], ["Use fewer agents or a sparser graph"]),
        (["ring", "weight=3"], ["graph.weight: ring has no key 'weight'", "It takes no options"]),
        (["erdos-renyi", "probability=2"], ["probability", "found 2.0"]),
        (["erdos-renyi", "probability=often"], ["graph.probability must be a valid number", "'often'"]),
        (["erdos-renyi", "0.5"], ["a change must be key=value"]),
        (["edge-list"], ["edge-list needs a value for path"]),
        (["edge-list", "path=nothing.txt"], ["nothing.txt: expected a file; found nothing"]),
        (["edge-list", "path=parts.txt", "-n", "4"], ["parts.txt", "found 2 parts", "agents 0 and 2"]),
        (["edge-list", "path=parts.txt", "-n", "5"], ["parts.txt"]),
        (["weight-matrix", "path=parts.txt"], ["parts.txt"]),
        (["weight-matrix", "path=/dev/null"], ["/dev/null"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_graph_that_cannot_be_is_refused(crossgrad, arguments, words, is_one_sentence):
    Path("parts.txt").write_text("0 1\n2 3\n")
    assert is_one_sentence(crossgrad("graph", *arguments), *words)


def test_a_path_of_odd_characters_or_great_length_is_shown_in_one_short_line(crossgrad, is_one_sentence):
    assert is_one_sentence(
        crossgrad("graph", "edge-list", "path=no\nsuch\x1b[31m.txt"), r"no\nsuch\x1b[31m.txt: expected"
    )
    answer = crossgrad("graph", "edge-list", "path=" + "x" * 5000)
    assert is_one_sentence(answer, "File name too long")
    assert len(answer.err) < 1000


@pytest.mark.parametrize("name", PARTITIONS)
def test_every_partition_has_a_table_and_a_picture(crossgrad, name):
    answer = crossgrad("partition", name, "--agents", 7, "--picture", "split.png")
    assert answer.status == 0
    lines = answer.out.splitlines()
    assert lines[0].split() == ["agent", "samples", *"0123456789"]
    assert [line.split()[0] for line in lines[1:9]] == [*"0123456", "all"]
    assert sum(int(line.split()[1]) for line in lines[1:8]) == int(lines[8].split()[1]) == 1437
    assert lines[9] == "Drawn in split.png"
    width, height = size_of_png(Path("split.png"))
    assert 600 < width < 3000
    assert 200 < height < 3000


def size_of_png(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", content[16:24])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clas"], ["partition.name: there is no 'clas'", "Did you mean 'class'?"]),
        (["dirichlet", "alpha=0"], ["alpha", "above 0"]),
        (["dirichlet", "beta=1"], ["partition.beta: dirichlet has no key 'beta'"]),
        (["class", "--agents", "0"], ["agents"]),
        (["class", "--agents", "5000"], ["5000 agents"]),
        (["class", "--data", "digit"], ["'digit'", "did you mean digits?"]),
        (
            ["class", "--data", "mnist"],
            ["the data set mnist must lie in one of the folders", "crossgrad data fetch mnist"],
        ),
        (["class", "--picture", "there.png"], ["there.png exists already and is not overwritten"]),
        (["class", "--picture", "split.jpg"], ["--picture must name a .png, .svg or .pdf file; found split.jpg"]),
        (["class", "--picture", "split"], ["--picture must name a .png, .svg or .pdf file; found split"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_partition_that_cannot_be_is_refused_before_anything_is_done(crossgrad, arguments, words, is_one_sentence):
    Path("there.png").write_text("mine")
    assert is_one_sentence(crossgrad("partition", *arguments), *words)
    assert Path("there.png").read_text() == "mine"


@pytest.mark.parametrize("picture", ["/proc/split.png", "nowhere/split.svg", "/dev/null/split.pdf"])
def test_a_picture_where_nothing_can_be_written_is_refused(crossgrad, picture):
    answer = crossgrad("partition", "class", "--picture", picture)
    assert answer.status == 2
    assert answer.err.startswith(f"crossgrad: {picture}: ")
    assert answer.err.count("\n") == 1
