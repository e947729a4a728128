"""Graphs from files, and a sentence for every file that holds none."""

import os
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossgrad.graphs import chain, exponential, read_edge_list, read_weights, ring

fuzz = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def write(tmp_path):
    """A function that writes text or bytes to a file, and returns its path."""

    def write(content, name="graph.txt"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


def outcome(read, *arguments):
    """The name of the graph, or the sentence that refuses the file."""
    try:
        return read(*arguments).name
    except ValueError as refused:
        return str(refused)


def lines(graph, weights=False):
    edges = [(j, other) for j in range(graph.agents) for other in graph.neighbours(j)]
    W = graph.dense().tolist()
    return "".join(f"{j} {other} {W[j][other] if weights else ''}\n" for j, other in edges)


def test_edges_without_weights_get_metropolis_weights(write):
    file = write("# a ring\n0 1\n1 2  # a comment\n\n2 3\n3\t0\r\n0 1\n1 0\n")
    assert np.array_equal(read_edge_list(file).dense(), ring(4).dense())
    assert read_edge_list(str(file), agents=4).name == "graph.txt"


def test_directed_edges_without_weights_get_uniform_weights_and_j_hears_l(write):
    graph = exponential(7)
    assert np.array_equal(read_edge_list(write(lines(graph)), directed=True).dense(), graph.dense())
    assert read_edge_list(write("0 1\n1 2\n2 0\n"), directed=True).neighbours(0).tolist() == [1]


def test_weights_are_used_as_they_are_and_the_rest_is_the_agents_own(write, family):
    graph = family[1](6)
    read = read_edge_list(write(lines(graph, weights=True)), directed=True)
    np.testing.assert_allclose(read.dense(), graph.dense(), atol=1e-15)


def test_an_own_weight_may_be_given(write):
    file = write("0 0 0\n1 1 0.5\n0 1 0.5\n1 0 1\n")
    assert read_edge_list(file, directed=True).dense().tolist() == [[0, 0.5], [1, 0.5]]


def test_one_agent_is_a_line_to_itself(write):
    assert read_edge_list(write("0 0\n")).dense().tolist() == [[1.0]]
    assert read_edge_list(write("0 0 1\n")).dense().tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", 'expected a line "j l" per edge, found no edges'),
        ("# nothing\n\n", "found no edges"),
        ("0 1\n1\n", 'line 2: expected "j l" or "j l weight", found \'1\''),
        ("0 1 1 1\n", 'line 1: expected "j l" or "j l weight", found \'0 1 1 1\''),
        ("0 1\n1 two\n", "line 2: expected an agent's number, 0 or above, found 'two'"),
        ("0 1\n1 2.0\n", "line 2: expected an agent's number, 0 or above, found '2.0'"),
        ("0,1\n1,2\n", 'line 1: expected "j l"'),
        ("0 -1\n", "line 1: expected an agent's number, 0 or above, found '-1'"),
        ("0 ²\n", "line 1: expected an agent's number"),
        ("0 1000000000000\n", "line 1: expected an agent from 0 to 999999, found '1000000000000'"),
        ("0 " + "9" * 5000, "line 1: expected an agent from 0 to 999999, found '99999"),
        ("0 999999\n", "found none of agent 1; number the agents without holes"),
        ("0 1\n1 3\n", "expected edges of all the agents 0 to 3, found none of agent 2"),
        ("0 1\n2 3\n", "found 2 parts"),
        ("0 1 0.5\n1 2\n", "line 2: expected a weight on every line or on none"),
        ("0 1\n0 1 0.5\n", "line 2: expected a weight on every line or on none"),
        (
            "0 1 0.3\n1 2 0.3\n1 0 0.4\n",
            "line 3: expected one weight per edge, found 0.4 here and 0.3 on line 1",
        ),
        ("0 1 half\n", "line 1: expected a finite number, found 'half'"),
        ("0 1 nan\n", "line 1: expected a finite number, found 'nan'"),
        ("0 1 1e999\n", "line 1: expected a finite number, found '1e999'"),
        ("0 1 1_0\n", "line 1: expected a finite number, found '1_0'"),
        ("0 1 -0.5\n", "line 1: expected a weight above 0, found '-0.5'"),
        ("0 1 0\n", "line 1: expected a weight above 0, found '0'"),
        ("0 1 0.6\n1 2 0.6\n", "agent 1 gives to its neighbours should sum to at most 1, found 1.2"),
        ("0 1 0.5\n0 0 0.4\n", "the rows or the columns of the weights should sum to one"),
        (b"\x89PNG\r\n\x1a\n", "expected a text file, found bytes that are no UTF-8"),
        ("0 1\n".encode("utf-16"), "expected a text file, found bytes that are no UTF-8"),
        (b"\0\0\0\0", "expected a text file, found zero bytes"),
    ],
)
def test_an_edge_list_that_does_not_do_is_refused_in_a_sentence_with_the_line(write, content, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as refused:
        read_edge_list(write(content))
    assert "graph.txt" in str(refused.value)
    assert str(refused.value).count("\n") == 0


def test_a_directed_edge_list_with_no_way_back_is_refused(write):
    with pytest.raises(ValueError, match="found 2 parts"):
        read_edge_list(write("0 1\n"), directed=True)


def test_the_number_of_agents_bounds_theirs(write):
    with pytest.raises(ValueError, match="line 3: expected an agent from 0 to 2, found '3'"):
        read_edge_list(write("0 1\n1 2\n2 3\n"), agents=3)
    with pytest.raises(ValueError, match="all the agents 0 to 5, found none of agent 4"):
        read_edge_list(write(lines(chain(4))), agents=6)
    with pytest.raises(ValueError, match="agents should be a whole number of at least 1, found 0"):
        read_edge_list(write(lines(chain(4))), agents=0)


@pytest.mark.parametrize("separator", [" ", ", ", ",", "\t"])
def test_a_matrix_in_text_comes_back_exactly(write, family, separator):
    graph = family[1](6)
    text = "# weights\n" + "\n".join(separator.join(map(repr, row)) for row in graph.dense().tolist())
    assert np.array_equal(read_weights(write(text, "w.csv")).dense(), graph.dense())


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.longdouble, np.int64, np.bool_, ">f8"])
def test_a_matrix_in_npy_comes_back_exactly(tmp_path, dtype):
    W = np.array([[0.5, 0.5], [0.5, 0.5]]) if np.dtype(dtype).kind == "f" else np.array([[0, 1], [1, 0]])
    np.save(tmp_path / "w.npy", W.astype(dtype))
    graph = read_weights(tmp_path / "w.npy")
    assert np.array_equal(graph.dense(), W)
    assert graph.name == "w.npy"


def test_a_matrix_in_fortran_order_is_not_transposed(tmp_path):
    W = np.array([[0.5, 0.5], [0.25, 0.75]])
    np.save(tmp_path / "w.npy", np.asfortranarray(W))
    assert np.array_equal(read_weights(tmp_path / "w.npy").dense(), W)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "expected a matrix with a row per line, found no numbers"),
        ("0.5 0.5\n0.5\n", "line 2: expected 2 numbers, as in the lines before, found 1"),
        ("a,b\n0.5,0.5\n", "line 1: expected a finite number, found 'a'"),
        ("0.5,0.5,\n0.5,0.5,\n", "line 1: expected a finite number, found ''"),
        ("0.5 nan\n0.5 0.5\n", "line 1: expected a finite number, found 'nan'"),
        ("0.5 0.5\n", "square matrix with a row per agent, found the shape (1, 2)"),
        ("0.3 0.3\n0.3 0.3\n", "should sum to one"),
        ("1.5 -0.5\n-0.5 1.5\n", "found -0.5 for agent 1 in the average of agent 0"),
        (b"\xff\xfe\xfd", "found bytes that are no UTF-8"),
    ],
)
def test_a_matrix_in_text_that_does_not_do_is_refused_in_a_sentence(write, content, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as refused:
        read_weights(write(content))
    assert "graph.txt" in str(refused.value)


def header(shape, descr="'<f8'"):
    """The bytes of a .npy file that promises this shape and holds four numbers."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + np.full(4, 0.5).tobytes()


def test_the_header_of_these_tests_is_numpys(write):
    assert read_weights(write(header("(2, 2)"), "w.npy")).agents == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0.5 0.5\n0.5 0.5\n",
        header("(3, 3)"),
        header("(1000000, 1000000)"),
        header(f"({10**30}, {10**30})"),
        header("(-2, -2)"),
        header("(2, 2"),
        header("(2, 2)", "'|O'"),
        header("(2, 2)", "'nonsense'"),
        header("(2, 2)")[:60],
        header("(4,)"),
        header("()"),
        header("(0, 0)"),
        header("(2, 2)", "'<c4'"),
        header("(2, 1)", "'<c16'"),
        header("(1, 1)", "'<c16'"),
        header("(2, 2)", "'<U2'"),
        header("(2, 2)", "[('a', '<f8')]"),
    ],
)
def test_a_npy_file_that_lies_is_refused_in_a_sentence(write, content):
    with pytest.raises(ValueError, match=r"w\.npy: [^\n]*\.$"):
        read_weights(write(content, "w.npy"))


def test_an_npy_file_of_pickled_objects_is_not_opened(tmp_path):
    np.save(tmp_path / "w.npy", np.array([[object()]]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"expected a numeric matrix written by numpy\.save"):
        read_weights(tmp_path / "w.npy")


@fuzz
@given(st.integers(0, 127), st.integers(0, 255))
def test_a_npy_file_with_a_byte_changed_is_read_or_refused(write, position, byte):
    content = bytearray(header("(2, 2)"))
    content[position] = byte
    file = write(bytes(content), "w.npy")
    assert "w.npy" in outcome(read_weights, file)


@fuzz
@given(st.binary(max_size=40) | st.text("0123 .-e,#\n\r\x00x_²", max_size=40).map(str.encode), st.booleans())
def test_any_file_is_read_or_refused(write, content, directed):
    file = write(content)
    for found in outcome(read_edge_list, file, None, directed), outcome(read_weights, file):
        assert "graph.txt" in found
        assert "\n" not in found


@pytest.mark.parametrize(
    "content",
    [
        header("(4294967297, 4294967297)"),
        header("(9223372036854775807, 9223372036854775807)"),
        header("'\\e'"),
        header("(1if 1else 1,)"),
    ],
)
def test_a_npy_header_is_refused_without_a_warning(write, content):
    with pytest.raises(ValueError, match=r"w\.npy: expected a numeric matrix"):  # and warnings are errors here
        read_weights(write(content, "w.npy"))


def test_a_text_of_gigabytes_is_refused_unread(write):
    file = write("0 1\n")
    os.truncate(file, 5 << 30)
    for read in (read_edge_list, read_weights):
        with pytest.raises(ValueError, match=r"expected a text of at most 25,165,824 bytes, found 5,368,709,120"):
            read(file)


def test_a_line_without_end_is_refused(write):
    with pytest.raises(ValueError, match=r"line 2: expected at most 1,048,576 bytes per line"):
        read_weights(write("0.5 0.5\n" + "1 " * (1 << 20)))


def test_a_matrix_in_text_with_more_rows_than_columns_is_refused_at_the_first_of_them(write):
    with pytest.raises(ValueError, match=r"line 3: expected as many rows as columns, 2, found more"):
        read_weights(write("1 0\n" * 1000))


def test_a_sparse_matrix_of_many_agents_is_read_without_a_dense_copy(tmp_path):
    matrix = np.lib.format.open_memmap(tmp_path / "w.npy", "w+", np.int8, (4000, 4000))
    matrix[np.arange(4000), np.roll(np.arange(4000), 1)] = 1
    matrix.flush()
    tracemalloc.start()
    assert read_weights(tmp_path / "w.npy").messages == 4000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # 128 MB as float64


def test_a_matrix_of_too_many_agents_is_refused_before_its_weights_are_read(tmp_path):
    np.lib.format.open_memmap(tmp_path / "w.npy", "w+", np.int8, (10_001, 10_001))
    with pytest.raises(ValueError, match=r"100,020,001 weights are more than the 100,000,000"):
        read_weights(tmp_path / "w.npy")


@pytest.mark.parametrize("read", [read_edge_list, read_weights])
class TestWithoutAFile:
    def test_a_missing_file_is_not_found(self, read, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"none\.txt: expected a file, found nothing of that name"):
            read(tmp_path / "none.txt")

    def test_a_path_no_file_can_have_is_not_found(self, read):
        with pytest.raises(FileNotFoundError, match="check the path"):
            read("a\0b")
        with pytest.raises(ValueError, match="expected a readable file, found: File name too long"):
            read("x" * 5000)

    def test_a_directory_is_no_file(self, read, tmp_path):
        with pytest.raises(ValueError, match="expected a file, found a directory or a device"):
            read(tmp_path)

    def test_a_device_is_not_read_for_ever(self, read):
        with pytest.raises(ValueError, match="expected a file, found a directory or a device"):
            read(os.devnull)

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read_is_refused(self, read, write):
        file = write("0 1\n")
        file.chmod(0)
        with pytest.raises(ValueError, match="Permission denied"):
            read(file)
