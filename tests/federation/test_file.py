"""federation.toml, and weights where somebody is missing."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from crossgrad.federation.reading import parse_federation
from crossgrad.federation.weights import edge_weight, graph_of_step
from crossgrad.federation.written import to_toml
from crossgrad.graphs import bipartite, fully_connected, ring, star
from crossgrad.graphs.weights import metropolis

BASE = """
[experiment]
model = "mlp"
graph = "ring"
algorithm = "cga"
partition = "class"
training = { steps = 3 }
"""


def sites(*listens):
    lines = [
        f'[[sites]]\nname = "s{i}"\n' + (f'listen = "{at}"\n' if at is not None else "") for i, at in enumerate(listens)
    ]
    return BASE + "".join(lines)


def test_a_federation_is_written_and_read_back_with_the_same_digest():
    federation = parse_federation(sites("h:1", None, "h:2"))
    assert parse_federation(to_toml(federation)).digest == federation.digest
    assert parse_federation(sites("h:1", None, "h:3")).digest != federation.digest


def test_of_two_neighbours_exactly_one_dials_and_never_one_that_cannot_be_dialled():
    federation = parse_federation(sites("h:1", None, "h:2", "h:3"))
    for j in range(4):
        for l in federation.neighbours(j):
            assert federation.dials(j, l) != federation.dials(l, j)
    assert federation.dials(1, 0)
    assert federation.dials(1, 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (sites(None, None, "h:1"), "of two neighbours one must listen.*s0 and s1 do not"),
        (sites("h:1", "h", "h:3"), "must be host:port"),
        (sites("h:1", "h:2", None) + 'address = "h:9"\n', "must listen"),
        (sites("h:1", "h:2").replace('"s1"', '"s0"'), "is there twice"),
        (sites("h:1", "h:2").replace('"s1"', '"S 1"'), "lower-case"),
        (sites("h:1", "h:2").replace('"ring"', '"exponential"') + sites("h:3")[len(BASE) :], "twice"),
        (sites("h:1", "h:2", "h:3", "h:4", "h:5").replace('"ring"', '"exponential"'), "both ways"),
        (sites("h:1", "h:2") + "[timing]\nlost_after = 0\n", "0.1 to 1,000,000"),
        (sites("h:1", ""), "must be host:port"),
        (sites("h:1:2", "h:2"), "must be host:port"),
        (sites("h:٣", "h:2"), "must be host:port"),
        ('name = "../../x"\n' + sites("h:1", "h:2"), "as folders are named after it"),
        ("classes = true\n" + sites("h:1", "h:2"), "classes must be a valid integer"),
        (sites("h:1", "h:2") + "[experiment.attack]\nagents = [0]\n", "attack must be left out"),
        (sites("h:1", "h:2") + "[experiment.links]\nbandwidth = '1 Mbit/s'\n", "links must be left out"),
        (sites("h:1", "h:2").replace("steps = 3", "steps = 3, validation = 0.1"), "training.validation must be left"),
        (sites("h:1", "h:2") + "[experiment.data]\nown_test = 0.1\n", "data.own_test must be left out"),
        (sites("h:1", "h:2").replace('"cga"', '"dpmsgd"') + "[experiment.gossip]\ncodec = 'quantised'\n", "its gossip"),
        (sites("h:1", "h:2") + "[timing]\nlost = 5\n", "no key 'lost'"),
        (
            "[experiment]\nagents = 3\n" + sites("h:1", "h:2")[len("\n[experiment]\n") :],
            "must be the number of sites, 2; found 3",
        ),
        ("[[sites]]\nname = 'a'\n", "experiment must be a table .* found nothing"),
        ("secret = 1\n" + sites("h:1"), "no key 'secret'"),
        (sites("h:1", "h:2") + "[experiment.faults]\ndrop = 0.5\n", "faults must be left out"),
    ],
)
def test_mistakes_in_the_file_are_named(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_federation(text)


@pytest.mark.parametrize("graph", [ring(6), bipartite(6), fully_connected(5), star(5)], ids=lambda g: g.name)
def test_weights_of_what_is_left_are_symmetric_and_leave_everybody_a_share(graph):
    random = np.random.default_rng(0)
    for _ in range(50):
        there = graph.dense() * (random.random(graph.dense().shape) < 0.7)
        there = (there != 0) & (there != 0).T
        np.fill_diagonal(there, False)
        degrees = there.sum(axis=1)
        W = np.zeros_like(graph.dense())
        for j in range(graph.agents):
            partners = tuple((int(l), int(degrees[l])) for l in np.flatnonzero(there[j]))
            W[j] = graph_of_step(graph, j, int(degrees[j]), partners).dense()[j]
        np.testing.assert_allclose(W, W.T, atol=1e-15)
        np.testing.assert_allclose(W.sum(axis=1), 1)
        assert W.diagonal().min() >= 0


def test_where_everybody_misses_somebody_weights_are_those_of_metropolis():
    graph = fully_connected(6)
    there = np.zeros((6, 6))
    for j, l in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]:
        there[j, l] = there[l, j] = 1
    expected, degrees = metropolis(csr_array(there)).toarray(), there.sum(axis=1).astype(int)
    for j, l in zip(*np.nonzero(there), strict=True):
        assert edge_weight(graph, j, l, degrees[j], degrees[l]) == expected[j, l]


def test_where_nobody_is_missing_the_graph_keeps_its_own_weights():
    graph = bipartite(6)
    partners = tuple((int(l), int(graph.degrees[l])) for l in graph.neighbours(0))
    assert graph_of_step(graph, 0, int(graph.degrees[0]), partners) is graph
