"""Matrices of weights from files, in text and as NumPy writes them."""

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossgrad.graphs import read_weights

fuzz = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


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
        ("", "expected a matrix with a row per line; found no numbers"),
        ("0.5 0.5\n0.5\n", "line 2: expected 2 numbers, as in the lines before; found 1"),
        ("a,b\n0.5,0.5\n", "line 1: expected a finite number; found 'a'"),
        ("0.5,0.5,\n0.5,0.5,\n", "line 1: expected a finite number; found ''"),
        ("0.5 nan\n0.5 0.5\n", "line 1: expected a finite number; found 'nan'"),
        ("0.5 0.5\n", "square matrix with a row per agent; found the shape (1, 2)"),
        ("0.3 0.3\n0.3 0.3\n", "must sum to one"),
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
def test_a_npy_file_with_a_byte_changed_is_read_or_refused(outcome, write, position, byte):
    content = bytearray(header("(2, 2)"))
    content[position] = byte
    file = write(bytes(content), "w.npy")
    assert "w.npy" in outcome(read_weights, file)


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


def test_a_line_without_end_is_refused(write):
    with pytest.raises(ValueError, match=r"line 2: expected at most 1,048,576 bytes per line"):
        read_weights(write("0.5 0.5\n" + "1 " * (1 << 20)))


def test_a_matrix_in_text_with_more_rows_than_columns_is_refused_at_the_first_of_them(write):
    with pytest.raises(ValueError, match=r"line 3: expected as many rows as columns, 2; found more"):
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
    with pytest.raises(ValueError, match=r"at most 100,000,000 weights; this one would have 100,020,001"):
        read_weights(tmp_path / "w.npy")
