"""A grid's file becomes the cells that a person would list by hand, or says what is wrong with it."""

from dataclasses import replace
from pathlib import Path

import pytest

from crossgrad._sweep.grid import parse_grid, read_grid
from crossgrad.algorithms import ALGORITHMS
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.files import read

BASE = """[experiment]
model = "mlp"
graph = "ring"
partition = "class"
algorithm = "cga"
training.steps = 10
"""
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_combination_is_a_cell_and_the_last_axis_changes_fastest(grid):
    by_hand = [(g, s, m) for g in ("ring", "fully-connected") for s in ("0", "1") for m in ("CGA", "SGP")]
    assert [tuple(cell.labels.values()) for cell in grid.cells] == by_hand
    assert list(grid.cells[0].labels) == ["graph", "seed", "method"]


def test_a_cell_is_the_experiment_with_its_settings_changed(grid, tmp_path):
    file = tmp_path / "one.toml"
    file.write_text(
        'name = "fully-connected, 1, SGP"\nagents = 4\nseed = 1\npartition = "class"\ngraph = "fully-connected"\n'
        'algorithm = "sgp"\nmodel = { name = "mlp", hidden = [8] }\nschedule = { name = "constant", lr = 0.05 }\n'
        "training = { steps = 12, evaluate_every = 4, batch_size = 8 }\n"
    )
    assert grid.cells[-1].experiment == read(file)


def test_a_dotted_axis_changes_a_setting_within_a_choice():
    grid = parse_grid(f'{BASE}[axes]\n"algorithm.momentum" = [0.5, 0.9]\n"training.steps" = [10, 20]')
    found = [(c.experiment.algorithm.momentum, c.experiment.training.steps) for c in grid.cells]
    assert found == [(0.5, 10), (0.5, 20), (0.9, 10), (0.9, 20)]


def test_a_point_may_change_several_settings():
    grid = parse_grid(f'{BASE}[axes.size]\nsmall = {{ agents = 4, "training.steps" = 5 }}\nlarge = {{ agents = 9 }}')
    assert [(c.experiment.agents, c.experiment.training.steps) for c in grid.cells] == [(4, 5), (9, 10)]


def test_cells_have_names_of_their_own_that_do_not_depend_on_the_grid_around_them(grid):
    names = [cell.name for cell in grid.cells]
    assert len(set(names)) == len(names)
    more = parse_grid(f"{Path('small.toml').read_text().replace('seed = [0, 1]', 'seed = [1, 2, 0]')}")
    assert set(names) < {cell.name for cell in more.cells}
    other = replace(grid.cells[0], experiment=replace(grid.cells[0].experiment, seed=7))
    assert other.name not in names


def test_changes_on_the_command_line_are_made_to_every_cell():
    grid = read_grid("small.toml", ["training.steps=3", "agents=5"])
    assert {(c.experiment.training.steps, c.experiment.agents) for c in grid.cells} == {(3, 5)}


def test_every_algorithm_can_be_a_point_of_an_axis():
    grid = parse_grid(f"{BASE}[axes]\nalgorithm = {list(ALGORITHMS)}")
    assert [cell.labels["algorithm"] for cell in grid.cells] == list(ALGORITHMS)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*grid*.toml")), ids=lambda path: path.name)
def test_examples_are_grids(path):
    assert len(read_grid(path).cells) > 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a grid has a table [experiment]; this one has none"),
        (BASE, "a grid has a table [axes]; this one has none"),
        ("[axes", "expected valid TOML"),
        (f"{BASE}[axes]\nseed = 3", "axes.seed must be a list of values, or a table with settings for each label"),
        (f"{BASE}[axes]\nseed = []", "axes.seed must be a list of values"),
        (f"{BASE}[axes]\nseed = [0, 1, 0]", "axes.seed must have every point once; '0' is there twice"),
        (f"{BASE}[axes]\nsede = [0, 1]", "an experiment has no key 'sede'. Did you mean 'seed'?"),
        (f"{BASE}[axes]\nseed = [0, -1]", "the cell -1: seed must be at least 0; found -1."),
        (f'{BASE}[axes]\ngraph = ["ring", "rign"]', "the cell rign: graph.name: there is no 'rign'. Did you mean"),
        (f"{BASE}[axes.seed]\none = 1", "axes.seed.one must be a table of settings"),
        (f"{BASE}[axes]\nseed = {list(range(400))}\nagents = {list(range(1, 400))}", "at most 100,000 cells"),
        ('[experiment]\nmodel = "mlp"\n[axes]\nseed = [0]', "must say which graph or algorithm or partition to use"),
        (f"names = 1\n{BASE}[axes]\nseed = [0]", "names: a grid has no key 'names'. Did you mean 'name'?"),
        (f'{BASE}[axes]\n"seed.x" = [0]', "seed"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(text, sentence):
    with pytest.raises(ConfigError) as error:
        parse_grid(text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "found a folder"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "no text"),
        (lambda path: path.write_text("#" * (1 << 21)), "a short TOML file"),
    ],
)
def test_a_file_that_is_no_grid_is_refused(tmp_path, make, sentence):
    path = tmp_path / "grid.toml"
    make(path)
    with pytest.raises(ConfigError, match=sentence):
        read_grid(path)
