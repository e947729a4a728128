"""Graphs from files, and a sentence for every file that holds none."""

import os
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossgrad.graphs import chain, exponential, read_edge_list, read_weights, ring

fuzz = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


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
        ("", 'expected a line "j l" per edge; found no edges'),
        ("# nothing\n\n", "found no edges"),
        ("0 1\n1\n", 'line 2: expected "j l" or "j l weight"; found \'1\''),
        ("0 1 1 1\n", 'line 1: expected "j l" or "j l weight"; found \'0 1 1 1\''),
        ("0 1\n1 two\n", "line 2: expected an agent's number, 0 or above; found 'two'"),
        ("0 1\n1 2.0\n", "line 2: expected an agent's number, 0 or above; found '2.0'"),
        ("0,1\n1,2\n", 'line 1: expected "j l"'),
        ("0 -1\n", "line 1: expected an agent's number, 0 or above; found '-1'"),
        ("0 ²\n", "line 1: expected an agent's number"),
        ("0 1000000000000\n", "line 1: expected an agent from 0 to 999999; found '1000000000000'"),
        ("0 " + "9" * 5000, "line 1: expected an agent from 0 to 999999; found '99999"),
        ("0 999999\n", "found none of agent 1. Number the agents without holes"),
        ("0 1\n1 3\n", "expected edges of all the agents 0 to 3; found none of agent 2"),
        ("0 1\n2 3\n", "found 2 parts"),
        ("0 1 0.5\n1 2\n", "line 2: expected a weight on every line or on none"),
        ("0 1\n0 1 0.5\n", "line 2: expected a weight on every line or on none"),
        (
            "0 1 0.3\n1 2 0.3\n1 0 0.4\n",
            "line 3: expected one weight per edge; found 0.4 here and 0.3 on line 1",
        ),
        ("0 1 half\n", "line 1: expected a finite number; found 'half'"),
        ("0 1 nan\n", "line 1: expected a finite number; found 'nan'"),
        ("0 1 1e999\n", "line 1: expected a finite number; found '1e999'"),
        ("0 1 1_0\n", "line 1: expected a finite number; found '1_0'"),
        ("0 1 -0.5\n", "line 1: expected a weight above 0; found '-0.5'"),
        ("0 1 0\n", "line 1: expected a weight above 0; found '0'"),
        ("0 1 0.6\n1 2 0.6\n", "agent 1 gives to its neighbours must sum to at most 1; found 1.2"),
        ("0 1 0.5\n0 0 0.4\n", "the rows or the columns of the weights must sum to one"),
        (b"\x89PNG\r\n\x1a\n", "expected a text file; found bytes that are no UTF-8"),
        ("0 1\n".encode("utf-16"), "expected a text file; found bytes that are no UTF-8"),
        (b"\0\0\0\0", "expected a text file; found zero bytes"),
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
    with pytest.raises(ValueError, match="line 3: expected an agent from 0 to 2; found '3'"):
        read_edge_list(write("0 1\n1 2\n2 3\n"), agents=3)
    with pytest.raises(ValueError, match="all the agents 0 to 5; found none of agent 4"):
        read_edge_list(write(lines(chain(4))), agents=6)
    with pytest.raises(ValueError, match="agents must be a whole number of at least 1; found 0"):
        read_edge_list(write(lines(chain(4))), agents=0)


@fuzz
@given(st.binary(max_size=40) | st.text("0123 .-e,#\n\r\x00x_²", max_size=40).map(str.encode), st.booleans())
def test_any_file_is_read_or_refused(outcome, write, content, directed):
    file = write(content)
    for found in outcome(read_edge_list, file, None, directed), outcome(read_weights, file):
        assert "graph.txt" in found
        assert "\n" not in found


def test_a_text_of_gigabytes_is_refused_unread(write):
    file = write("0 1\n")
    os.truncate(file, 5 << 30)
    for read in (read_edge_list, read_weights):
        with pytest.raises(ValueError, match=r"expected a text of at most 25,165,824 bytes; found 5,368,709,120"):
            read(file)


@pytest.mark.parametrize("read", [read_edge_list, read_weights])
class TestWithoutAFile:
    def test_a_missing_file_is_not_found(self, read, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"none\.txt: expected a file; found nothing of that name"):
            read(tmp_path / "none.txt")

    def test_a_path_no_file_can_have_is_not_found(self, read):
        with pytest.raises(FileNotFoundError, match="Check the path"):
            read("a\0b")
        with pytest.raises(ValueError, match="expected a readable file; found: File name too long"):
            read("x" * 5000)

    def test_a_directory_is_no_file(self, read, tmp_path):
        with pytest.raises(ValueError, match="expected a file; found a directory or a device"):
            read(tmp_path)

    def test_a_device_is_not_read_for_ever(self, read):
        with pytest.raises(ValueError, match="expected a file; found a directory or a device"):
            read(os.devnull)

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read_is_refused(self, read, write):
        file = write("0 1\n")
        file.chmod(0)
        with pytest.raises(ValueError, match="Permission denied"):
            read(file)
