"""The paper's numbers are those of its text."""

import os
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from crossgrad._paper import tables
from crossgrad.data import DATASETS
from crossgrad.graphs import GRAPHS
from crossgrad.models.zoo import MODELS

SETTINGS = tomllib.loads(files("crossgrad._paper").joinpath("tables.toml").read_text(encoding="utf-8"))["settings"]
FOLDER = os.environ.get("CROSSGRAD_PAPER")
needs_the_paper = pytest.mark.skipif(not FOLDER, reason="CROSSGRAD_PAPER does not name the folder of the paper's text")


def test_the_paper_has_six_tables_with_234_numbers():
    assert {name: len(table.cells) for name, table in tables.PAPER_TABLES.items()} == {
        "cifar10-cnn-iid": 45,
        "cifar10-cnn-noniid": 45,
        "cifar10-vgg11-iid": 36,
        "cifar10-vgg11-noniid": 36,
        "mnist-cnn-iid": 36,
        "mnist-cnn-noniid": 36,
    }
    diverging = [c for table in tables.PAPER_TABLES for c in tables.cells(table) if c.diverges]
    assert [sum(c.table == table for c in diverging) for table in tables.PAPER_TABLES] == [0, 4, 0, 10, 0, 0]


def test_every_table_has_each_method_on_every_graph_with_every_number_of_agents():
    for table in tables.PAPER_TABLES.values():
        places = [(c.method, c.graph, c.agents) for c in table.cells]
        whole = [(m, g, n) for m in table.methods for g in tables.PAPER_GRAPHS for n in tables.PAPER_AGENTS]
        assert places == whole
        assert set(table.methods) <= set(tables.PAPER_METHODS)
        assert (table.data in DATASETS, table.model in MODELS) == (True, True)
    assert set(tables.PAPER_GRAPHS) <= set(GRAPHS)


def test_a_cell_is_a_percentage_or_diverges_and_says_so():
    for table in tables.PAPER_TABLES:
        for c in tables.cells(table):
            assert (c.accuracy is None) == c.diverges
            assert c.diverges or 5 < c.accuracy < 100
            assert str(c) == ("diverges" if c.diverges else f"{c.accuracy:.1f}")


def test_cells_are_found_by_their_names():
    assert tables.cell("mnist-cnn-noniid", "SwarmSGD", "bipartite", 40).accuracy == 18.3
    assert tables.cell("cifar10-cnn-iid", "DPSGD", "ring", 5) is None
    assert tables.cell("cifar10-cnn-iid", "CGA", "star", 5) is None


def test_an_unknown_table_is_named_with_those_there_are():
    with pytest.raises(
        ValueError, match=r"no table 'mnist'\. Did you mean 'mnist-cnn-iid'\? Valid are: cifar10-cnn-iid, "
    ):
        tables.cells("mnist")


def test_every_setting_has_a_source_or_is_marked_open():
    for setting in SETTINGS.values():
        assert ("words" in setting) == ("section" in setting)
        assert ("open" in setting) == ("taken" in setting)
        assert "words" in setting or "open" in setting


def text() -> str:
    return (Path(FOLDER) / "cross-gradient-aggregation.tex").read_text(encoding="utf-8")


@needs_the_paper
def test_every_number_is_the_one_in_the_papers_text():
    """A second reading: the tables' cells in the order of the text, by what stands between two ampersands."""
    found = {}
    for table in re.findall(r"\\begin\{table\*?\}(.*?)\\end\{table\*?\}", text(), re.DOTALL):
        label = re.search(r"\\label\{(\w+)\}", table).group(1)
        if label == "table1":
            continue
        flat = re.sub(r"\\(textbf|Centering|hline|begin\{tabular\}\{l\}|end\{tabular\})|[{}\s%]|\(ours\)", "", table)
        flat = flat.split("Bipartite", 1)[1].replace("\\\\", ";").replace("\\", "")
        columns = flat.replace("&", ";&").split("&")
        for number in range(0, len(columns) - 1, 3):
            method = re.search(r"(?:^|;)([A-Za-z]+);$", columns[number]).group(1)
            for graph, column in zip(tables.PAPER_GRAPHS, columns[number + 1 : number + 4], strict=True):
                for value, agents in re.findall(r"([\d.]+|Diverges)\((\d+)\)", column):
                    key = (label, method, graph, int(agents))
                    assert key not in found
                    found[key] = None if value == "Diverges" else float(value)
    ours = {(t.label, c.method, c.graph, c.agents): c.accuracy for t in tables.PAPER_TABLES.values() for c in t.cells}
    assert found == ours


@needs_the_paper
def test_the_words_of_every_setting_stand_in_the_papers_text():
    plain = " ".join(re.sub(r"[$\\]", "", text()).replace("beta", "β").split())
    for name, setting in SETTINGS.items():
        assert setting.get("words", "") in plain, name
