"""Every family of graphs, for tests that hold for all of them."""

import pytest

from crossgrad import graphs

FIXED = {
    "fully-connected": graphs.fully_connected,
    "ring": graphs.ring,
    "bipartite": graphs.bipartite,
    "balanced-bipartite": graphs.balanced_bipartite,
    "star": graphs.star,
    "chain": graphs.chain,
    "torus": graphs.torus,
    "exponential": graphs.exponential,
    "erdos-renyi": graphs.erdos_renyi,
}
CHANGING = {
    "one-peer-exponential": graphs.one_peer_exponential,
    "random-matchings": graphs.random_matchings,
}


@pytest.fixture(params=FIXED, scope="session")
def family(request):
    """(name, function) of every family of fixed graphs."""
    return request.param, FIXED[request.param]


@pytest.fixture(params=FIXED | CHANGING, scope="session")
def any_family(request):
    """(name, function) of every family, fixed or changing."""
    return request.param, (FIXED | CHANGING)[request.param]


@pytest.fixture
def write(tmp_path):
    """A function that writes text or bytes to a file, and returns its path."""

    def write(content, name="graph.txt"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


@pytest.fixture
def outcome():
    """A function that reads a graph: its name, or the sentence that refuses the file."""

    def read_with(read, *arguments):
        try:
            return read(*arguments).name
        except ValueError as refused:
            return str(refused)

    return read_with
