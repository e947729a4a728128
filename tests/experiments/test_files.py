"""Files that hold no experiment, and texts and tables of any kind, end in a sentence."""

import math
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgrad._sweep.grid import parse_grid
from crossgrad._training.schedule import SCHEDULES
from crossgrad.algorithms import ALGORITHMS
from crossgrad.data import PARTITIONS
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.files import from_table, parse, read, to_toml
from crossgrad.experiments.toml import MAX_EXPERIMENT_BYTES, load_toml
from crossgrad.graphs import GRAPHS
from crossgrad.models.zoo import MODELS

BASE = Path(__file__).with_name("base.toml").read_text()


@pytest.mark.parametrize("content", ["", "\n\n", "# only a comment\n", b"\xef\xbb\xbf"])
def test_an_empty_file_points_to_an_example(complaint, content):
    assert complaint(content) == "expected an experiment; the file is empty. `crossgrad run --help` shows a short one."


@pytest.mark.parametrize("content", [b"\xff\xfe\x00\x01", b"\x89PNG\r\n\x1a\n\xf0", bytes(range(256))])
def test_a_binary_file_is_no_experiment(complaint, content):
    assert complaint(content) == "expected a TOML text file; found bytes that are no text. Save it as UTF-8."


@pytest.mark.parametrize(
    ("content", "line"),
    [("agents = 3\nseed = = 4\n", 2), ("agents = 3\nagents = 4\n", 2), ("a = 1\nb = 2\n[model\n", 3), ("agents: 3", 1)],
)
def test_invalid_toml_is_refused_with_its_line(complaint, content, line):
    message = complaint(content)
    assert message.startswith("expected valid TOML; found this fault: ")
    assert f"line {line}" in message


def test_a_number_of_thousands_of_digits_is_refused(complaint):
    assert complaint(f"{BASE}seed = {'1' * 5000}\n").startswith("expected valid TOML; found this fault: ")
    assert complaint(BASE, "seed=" + "1" * 500).startswith("seed must be at most")


def test_tables_nested_without_end_are_refused(complaint):
    deeper = [f"schedule{'.then' * depth}.name=warm-up" for depth in range(600)]
    brackets = "[" * 1000 + "\n"
    for message in (complaint(f"name = {brackets * 50}"), complaint(BASE, *deeper)):
        assert message == "tables and lists must be nested at most 50 deep; found more levels. Flatten them."


def test_a_file_that_is_far_too_large_is_refused(complaint):
    assert complaint(b"#" * (MAX_EXPERIMENT_BYTES + 1)).startswith("an experiment is a short TOML file")


def test_a_device_that_never_ends_is_refused():
    with pytest.raises(ConfigError, match="an experiment is a short TOML file"):
        read("/dev/zero")


def test_a_pipe_that_nobody_fills_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"expected a TOML file; found a pipe\. Write it into a file first\.$"):
        read(tmp_path / "pipe")


def test_a_value_of_any_length_is_refused_in_a_short_sentence(complaint):
    long = "x" * 100_000
    for content, *changes in (
        [f'{BASE}schedule = "{long}"'],
        [f"{BASE}{long} = 1"],
        [f"{BASE}seed = [{'1,' * 100_000}]"],
        [BASE, f"model={{name='mlp', hidden=[{'0,' * 10_000}]}}"],
        [BASE, f"graph.{long}=1"],
        [BASE, long],
    ):
        assert len(complaint(content, *changes)) < 1000


def test_a_hexadecimal_number_of_thousands_of_digits_is_refused(complaint):
    number = "0x" + "f" * 5000
    assert "must be at most" in complaint(f"{BASE}seed = {number}")
    assert "a number must have digits that can be shown; Exceeds the limit" in complaint(f"{BASE}data = [[{number}]]")


@pytest.mark.parametrize("odd", ["\\n", "\\u001b[31m", "\\u0000", "\\u2028"])
def test_odd_characters_are_shown_as_codes(complaint, odd):
    for content in (f'{BASE}"a{odd}b" = 1', f'{BASE}schedule = "a{odd}b"'):
        assert complaint(content).isprintable()


def test_a_folder_or_a_missing_file_is_no_experiment(tmp_path):
    with pytest.raises(ConfigError, match=r"expected a TOML file; found a folder\. Name a file in it\.$"):
        read(tmp_path)
    with pytest.raises(ConfigError, match=r"there is no such file\. Ready ones lie in examples/\.$"):
        read(tmp_path / "nothing.toml")
    with pytest.raises(ConfigError, match="expected a file that can be read; Not a directory"):
        read("/dev/null/experiment.toml")


LEAVES = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=5), st.dates(),
    st.sampled_from([*ALGORITHMS, *GRAPHS, *MODELS, *PARTITIONS, *SCHEDULES, "exact", "projection", 10**30, math.nan]),
)  # fmt: skip
KEYS = st.sampled_from(
    ["name", "seed", "agents", "model", "graph", "algorithm", "partition", "schedule", "training", "data", "momentum",
     "hidden", "then", "codec", "aggregate", "lr", "at", "steps", "epochs", "path", "probability", "threads", "device",
     "dtype", "margin", "root", "faults", "leave", "absences", "nonsense"]
)  # fmt: skip
TABLES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, TABLES, max_size=5))
def test_any_table_is_an_experiment_that_can_be_written_down_or_a_sentence(table):
    whole = {"model": "mlp", "graph": "ring", "algorithm": "cga", "partition": "iid", "training": {"steps": 1}}
    try:
        experiment = from_table(whole | table)
    except ConfigError:
        return
    assert parse(to_toml(experiment)) == experiment


@settings(max_examples=100, deadline=None)
@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_is_refused_in_a_sentence(text, changes):
    with pytest.raises(ConfigError):
        parse(text, changes)


CHANGED = [("steps = 30", "training.epochs=3"), ("epochs = 3.0", "training.steps=30")]


@pytest.mark.parametrize(("said", "changed"), CHANGED)
def test_a_change_of_the_length_replaces_the_one_of_the_file(said, changed):
    text = f'model = "mlp"\ngraph = "ring"\npartition = "class"\nalgorithm = "cga"\n[training]\n{said}\n'
    training = parse(text, [changed]).training
    assert (training.steps, training.epochs) == ((None, 3.0) if "epochs" in changed else (30, None))


def test_a_grid_given_to_run_names_sweep():
    with pytest.raises(ConfigError, match=r"this is a grid of them\. Run it with `crossgrad sweep`"):
        parse('[experiment]\nmodel = "mlp"\n[axes]\nseed = [0, 1]')


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (".".join("a" * 200_000) + " = 1", "a line must have at most 10000 characters"),
        ('"\u2028".' * 100_000 + "a = 1", "a line must have at most 10000 characters"),
        ("\n".join(f"key{i}" + ".a" * 4900 + " = 1" for i in range(100)), "at most 50 parts; found one of 4901"),
        ("\n".join('x = { y = """\n""", z' + ".a" * 4900 + ' = "" }' for i in range(100)), "found one of 4901"),
        ('model = { name = "mlp", hidden = [\n' + "8,\n" * 200_000 + "] }", "at most 4096 values; found 200000"),
    ],
    ids=["dotted key", "one line, not two", "many dotted keys", "after a text of two lines", "list"],
)
def test_a_file_that_would_take_minutes_is_refused_at_once(text, reason):
    rest = '\ngraph = "ring"\npartition = "class"\nalgorithm = "cga"\ntraining.steps = 3'
    start = time.process_time()
    with pytest.raises(ConfigError, match=reason):
        parse(text + rest + ('\nmodel = "mlp"' if "model" not in text else ""))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("value", ["[" * 300 + "]" * 300, "{a = " * 300 + "1" + "}" * 300])
def test_tables_within_tables_crashed_a_grid(value):
    with pytest.raises(ConfigError, match="must be nested at most 50 deep"):
        parse_grid(f"[axes]\nseed = [0, 1]\n[experiment]\nmodel = {value}")


def test_dots_in_texts_and_comments_are_no_keys():
    assert load_toml(f"# {'.' * 300}\nname = '{'.' * 300}' # {'.' * 300}\na = [{'0.5, ' * 300}]")["name"] == "." * 300
