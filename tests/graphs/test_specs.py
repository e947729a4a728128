"""The graphs as a configuration names them."""

import dataclasses
import pickle

import numpy as np
import pytest

from crossgrad.graphs import GRAPHS, erdos_renyi, random_matchings, ring
from crossgrad.graphs.specs import EdgeListSpec, ErdosRenyiSpec, RandomMatchingsSpec, WeightMatrixSpec

FILES = {"edge-list", "weight-matrix"}
SIZED = {
    "hyper-hypercube",
    "hypercube",
    "petersen",
    "dyck",
    "davis",
    "random-regular",
    "random-regular-each-step",
    "small-world",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_is_a_frozen_dataclass_with_one_line_that_says_what_it_is(name):
    spec = GRAPHS[name]
    assert spec.__dataclass_params__.frozen
    assert spec.__doc__.partition("\n")[0].endswith((".", ":"))
    assert not spec.__doc__.startswith(spec.__name__ + "("), "a docstring of its own"
    assert len({f.name for f in dataclasses.fields(spec)} & {"agents", "name"}) == 0


@pytest.mark.parametrize("agents", [1, 2, 7])
@pytest.mark.parametrize("name", sorted(GRAPHS.keys() - FILES - SIZED))
def test_every_graph_without_options_builds_under_its_own_name(name, agents):
    graph = GRAPHS[name]().build(agents, seed=3)
    assert graph.name == name
    assert graph.agents == agents


@pytest.mark.parametrize("agents", [0, True, 2.5])
@pytest.mark.parametrize("name", sorted(GRAPHS.keys() - FILES))
def test_a_number_of_agents_that_is_none_is_refused(name, agents):
    with pytest.raises(ValueError, match="agents must be a whole number of at least 1"):
        GRAPHS[name]().build(agents, seed=0)


def test_a_seed_of_its_own_goes_before_that_of_the_experiment():
    for own, used in (None, 5), (0, 0), (7, 7):
        drawn, expected = ErdosRenyiSpec(0.5, own).build(12, 5), erdos_renyi(12, 0.5, used)
        assert np.array_equal(drawn.dense(), expected.dense())
        pairs, expected_pairs = RandomMatchingsSpec(own).build(12, 5), random_matchings(12, used)
        assert np.array_equal(pairs.at(1).dense(), expected_pairs.at(1).dense())


def test_files_are_read_and_their_size_is_compared(tmp_path):
    edges, matrix = tmp_path / "edges.txt", tmp_path / "weights.txt"
    edges.write_text("0 1\n1 2\n2 0\n")
    np.savetxt(matrix, ring(3).dense(), fmt="%.17g")
    for spec in EdgeListSpec(str(edges)), EdgeListSpec(str(edges), directed=True), WeightMatrixSpec(str(matrix)):
        assert spec.build(3, 0).agents == 3
        sentence = r"expected a graph of 4 agents; found one of 3. Set agents to 3, or name another file\."
        with pytest.raises(ValueError, match=sentence):
            spec.build(4, 0)
        with pytest.raises(ValueError, match="agents must be a whole number"):
            spec.build(0, 0)
    assert EdgeListSpec(str(edges)).build(3, 0).undirected
    assert not EdgeListSpec(str(edges), directed=True).build(3, 0).undirected


@pytest.mark.parametrize("name", sorted(GRAPHS.keys() - FILES))
def test_a_spec_comes_back_from_a_pickle_as_worker_processes_send_it(name):
    spec = GRAPHS[name]()
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert type(spec).__name__.lower() == name.replace("-", "") + "spec"
