"""The named graphs against networkx and against the paper."""

import networkx as nx
import numpy as np
import pytest

from crossgrad import graphs
from crossgrad.graphs import bipartite, erdos_renyi, exponential, fully_connected, ring, torus

SIZES = [1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 16, 25, 40]


def grid(agents):
    """networkx's periodic grid with rows x columns as square as possible, its nodes numbered row by row."""
    rows = max(r for r in range(1, agents + 1) if agents % r == 0 and r * r <= agents)
    columns = agents // rows
    g = nx.Graph()
    g.add_nodes_from(range(agents))
    rows_joined = nx.cycle_graph(rows).edges
    columns_joined = nx.cycle_graph(columns).edges
    g.add_edges_from((a * columns + c, b * columns + c) for a, b in rows_joined for c in range(columns))
    g.add_edges_from((r * columns + a, r * columns + b) for a, b in columns_joined for r in range(rows))
    return g


def two_hubs(agents):
    return nx.complete_bipartite_graph(agents - 2, 2) if agents > 2 else nx.path_graph(agents)


REFERENCE = {
    "fully-connected": nx.complete_graph,
    "ring": nx.cycle_graph,
    "bipartite": two_hubs,
    "balanced-bipartite": lambda n: nx.complete_bipartite_graph((n + 1) // 2, n // 2),
    "star": lambda n: nx.star_graph(n - 1),
    "chain": nx.path_graph,
    "torus": grid,
}


@pytest.mark.parametrize("agents", SIZES)
@pytest.mark.parametrize("name", REFERENCE)
def test_the_edges_are_those_of_networkx(name, agents):
    graph = getattr(graphs, name.replace("-", "_"))(agents)
    reference = REFERENCE[name](agents)
    reference.remove_edges_from(list(nx.selfloop_edges(reference)))
    expected = {(j, other) for a, b in reference.edges for j, other in [(a, b), (b, a)]}
    found = {(j, int(other)) for j in range(agents) for other in graph.neighbours(j)}
    assert found == expected
    assert graph.name == name


@pytest.mark.parametrize("agents", SIZES)
def test_the_exponential_graph_is_circulant_with_hops_of_powers_of_two(agents):
    W = exponential(agents).dense()
    hops = {2**i for i in range(10) if 2**i < agents}
    for j in range(agents):
        assert set(np.flatnonzero(W[j])) == {(j - hop) % agents for hop in hops | {0}}
    np.testing.assert_allclose(W[W > 0], 1 / (1 + len(hops)), rtol=1e-15)


@pytest.mark.parametrize("agents", SIZES)
def test_every_family_is_doubly_stochastic_and_undirected_unless_exponential(family, agents):
    name, make = family
    graph = make(agents)
    assert graph.agents == agents
    assert graph.name == name
    assert graph.doubly_stochastic
    assert graph.undirected or name == "exponential"


@pytest.mark.parametrize("agents", [5, 10, 12, 40])
def test_every_family_mixes(family, agents):
    assert family[1](agents).mixing_rate < 1


def test_one_agent_is_alone(any_family):
    graph = any_family[1](1)
    assert graph.at(0).dense().tolist() == [[1.0]]
    assert graph.mixing_rate == 0
    assert graph.messages == 0
    assert graph.union().neighbours(0).size == 0


def test_two_agents_are_one_pair_with_a_half(any_family):
    graph = any_family[1](2)
    assert graph.at(0).dense().tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert graph.mixing_rate == pytest.approx(0, abs=1e-15)
    assert graph.messages == 2


@pytest.mark.parametrize("agents", [3, 5, 10, 1001])
def test_the_rings_weights_are_exactly_a_third(agents):
    assert set(ring(agents).weights.data) == {1 / 3}


@pytest.mark.parametrize("agents", [1, 3, 10])
def test_the_fully_connected_weights_are_exactly_one_over_n(agents):
    assert np.array_equal(fully_connected(agents).dense(), np.full((agents, agents), 1 / agents))


@pytest.mark.parametrize(("agents", "a"), [(3, 0.5), (4, 0.33), (5, 0.25), (10, 0.11), (40, 0.02), (100, 0.01)])
def test_the_papers_bipartite_weights_are_truncated_to_two_decimals(agents, a):
    expected = np.diag([1 - 2 * a] * (agents - 2) + [1 - (agents - 2) * a] * 2)
    expected[:-2, -2:] = expected[-2:, :-2] = a
    np.testing.assert_allclose(bipartite(agents).dense(), expected, atol=1e-15)


@pytest.mark.parametrize("agents", [101, 102, 500])
def test_beyond_a_hundred_agents_the_bipartite_weights_are_metropolis_untruncated(agents):
    graph = bipartite(agents)
    np.testing.assert_allclose(graph.dense(), graph.to_undirected().dense(), atol=1e-15)
    assert graph.mixing_rate == pytest.approx(1 - 2 / (agents - 1), abs=1e-12)


def test_a_prime_torus_is_a_ring():
    assert np.array_equal(torus(13).dense(), ring(13).dense())


@pytest.mark.parametrize("agents", [0, -3, True, 2.0, "5", None, float("nan")])
def test_a_number_of_agents_that_is_none_is_refused_in_one_sentence(any_family, agents):
    with pytest.raises(ValueError, match=r"^agents must be a whole number of at least 1; found .*\.$"):
        any_family[1](agents)


def test_numpys_integers_are_numbers_of_agents(any_family):
    assert any_family[1](np.int32(4)).agents == 4


def test_sizes_that_would_exhaust_the_memory_are_refused_before():
    with pytest.raises(ValueError, match="agents must be at most 1,000,000"):
        ring(10**12)
    for make in fully_connected, graphs.balanced_bipartite:
        with pytest.raises(ValueError, match="a graph must have at most 100,000,000 weights"):
            make(1_000_000)
    with pytest.raises(ValueError, match="Use fewer agents or a sparser graph"):
        erdos_renyi(1_000_000, 0.5)
