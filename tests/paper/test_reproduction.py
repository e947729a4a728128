"""The paper's tables become grids of the experiments that the paper describes, and results its tables."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from crossgrad._paper.reproduction import Choice, families, grid
from crossgrad._paper.tables import PAPER_AGENTS, PAPER_GRAPHS, PAPER_TABLES
from crossgrad._paper.verdict import SETTLED
from crossgrad.algorithms import CGA, DPMSGD, EDM, SGP
from crossgrad.experiments.choices import DataChoice

ROOT = Path(__file__).parents[2]


def by_labels(choice):
    return {tuple(cell.labels.values()): cell.experiment for cell in grid(choice).cells}


@pytest.fixture(autouse=True)
def workplace(monkeypatch, tmp_path):
    """An empty folder to work in, and 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("table", PAPER_TABLES)
def test_every_cell_of_every_table_is_a_cell_of_its_grid(table):
    labels = [cell.labels for cell in grid(Choice(table)).cells]
    ours = {(label["method"], label["graph"], int(label["agents"])) for label in labels if label["variant"] == "paper"}
    assert ours == {(cell.method, cell.graph, cell.agents) for cell in PAPER_TABLES[table].cells}


def test_an_experiment_is_the_one_that_the_paper_describes():
    cells = by_labels(Choice("cifar10-cnn-noniid", epochs=20.0))
    one = cells["5", "ring", "non-IID", "CGA", "paper", "0"]
    assert (one.data.name, one.agents, one.training.batch_size, one.training.epochs) == ("cifar10", 5, 128, 20.0)
    assert one.algorithm == CGA(momentum=0.98)
    assert (one.schedule.lr, one.schedule.decay) == (0.01, 0.981)
    assert type(one.model).__name__ == "PaperCNN"
    assert type(one.partition).__name__ == "ByClass"
    assert cells["40", "bipartite", "non-IID", "DPMSGD", "paper", "0"].algorithm == DPMSGD(0.98)
    assert cells["40", "bipartite", "non-IID", "SGP", "paper", "0"].algorithm == SGP()
    assert cells["40", "bipartite", "non-IID", "SGP", "momentum", "0"].algorithm == SGP(0.98)


def test_a_newer_method_takes_steps_as_long_as_those_of_the_papers_momentum():
    cells = by_labels(Choice("cifar10-cnn-noniid", (5,), ("ring",), ("cga", "edm")))
    cga, edm = (cells["5", "ring", "non-IID", name, "paper", "0"] for name in ("CGA", "EDM"))
    assert edm.algorithm == EDM(momentum=0.98)
    heavy_ball = cga.schedule.lr / (1 - cga.algorithm.momentum)  # the sum of what a gradient adds over all later steps
    assert edm.schedule.lr == pytest.approx(heavy_ball)
    assert replace(edm, algorithm=cga.algorithm, schedule=cga.schedule, name=cga.name) == cga


def test_the_pattern_on_digits_is_all_methods_graphs_agents_and_splits_with_three_seeds():
    labels = [cell.labels for cell in grid(Choice("cifar10-cnn", scale="digits", seeds=3)).cells]
    assert len(labels) == 7 * len(PAPER_GRAPHS) * len(PAPER_AGENTS) * 2 * 3
    assert {label["split"] for label in labels} == {"IID", "non-IID"}
    assert families() == ["cifar10-cnn", "cifar10-vgg11", "mnist-cnn"]


def test_half_the_scale_differs_from_the_papers_in_its_images_only():
    choices = [Choice("mnist-cnn-noniid", scale=scale, epochs=20.0) for scale in ("paper", "half")]
    papers, half = map(by_labels, choices)
    assert {cell.data for cell in half.values()} == {DataChoice("mnist", shrink=2)}
    assert {labels: replace(cell, data=DataChoice("mnist")) for labels, cell in half.items()} == papers
    assert [choice.name for choice in choices] == ["mnist-cnn-noniid-20-epochs", "mnist-cnn-noniid-half-20-epochs"]
    assert choices[1].command() == "crossgrad reproduce mnist-cnn-noniid --scale half --epochs 20"


def test_until_settled_is_the_rule_of_the_verdict_and_has_a_folder_of_its_own():
    choice = Choice("mnist-cnn-noniid", (5,), ("ring",), ("cga",), epochs=20.0, until_settled=True)
    (cell,) = grid(choice).cells
    assert cell.experiment.settings().settled == SETTLED
    assert choice.name == "mnist-cnn-noniid-20-epochs-settled"
    assert choice.command().endswith("--epochs 20 --until-settled")
    (plain,) = grid(replace(choice, until_settled=False)).cells
    training = replace(cell.experiment.training, settled_points=None, settled_epochs=None)
    assert replace(cell.experiment, training=training) == plain.experiment


def test_autocast_changes_the_passes_only_and_has_a_folder_of_its_own():
    choice = Choice("mnist-cnn-noniid", (5,), ("ring",), ("cga",), epochs=20.0, autocast=True)
    (cell,), (plain,) = grid(choice).cells, grid(replace(choice, autocast=False)).cells
    assert cell.experiment.settings().autocast
    assert choice.name == "mnist-cnn-noniid-20-epochs-autocast"
    assert choice.command().endswith("--epochs 20 --autocast")
    training = replace(cell.experiment.training, autocast=None)
    assert replace(cell.experiment, training=training) == plain.experiment


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice("cifar10"), "the paper has no table 'cifar10'. Did you mean"),
        (Choice("mnist-cnn", agents=(7,)), "no number of agents 7"),
        (Choice("mnist-cnn", graphs=("star",)), "no graph 'star'"),
        (Choice("mnist-cnn", scale="small"), "no scale 'small'"),
        (Choice("mnist-cnn", algorithms=("adam",)), "there is no method 'adam'"),
        (Choice("mnist-cnn", algorithms=("cga:best",)), "CGA has no variant 'best'"),
    ],
)
def test_what_the_paper_does_not_have_is_refused(choice, words):
    with pytest.raises(ValueError, match=words):
        grid(choice)


def test_the_tables_are_listed(crossgrad):
    status, out, _ = crossgrad("reproduce", "--list")
    assert status == 0
    assert all(table in out for table in [*PAPER_TABLES, "table1"])


def test_cells_are_run_and_set_beside_the_papers_numbers(crossgrad, apart, monkeypatch):
    arguments = ["cifar10-cnn-noniid", "--scale", "digits", "--agents", 5, "--graph", "ring", "--algorithm", "cga"]
    arguments += ["--epochs", 1, "--seeds", 2, "--evaluations", 2, "--jobs", 1]
    status, out, _ = apart("reproduce", *arguments)
    assert status == 0
    folder = Path("reproductions/cifar10-cnn-noniid-digits-1-epochs")
    (row,) = json.loads((folder / "reproduction.json").read_text())["rows"]
    last = [json.loads(path.read_text())["last_record"] for path in folder.glob("cells/*/summary.json")]
    assert len(last) == 2
    assert row["averaged"] == pytest.approx(50 * sum(record["accuracy"] for record in last))
    assert (row["paper"], row["seeds"], row["difference"]) == ("66.5", 2, None)
    assert f"{row['averaged']:.1f}" in out
    assert f"{row['averaged']:.1f}" in (folder / "table.md").read_text()
    assert (folder / "report.html").stat().st_size < 10_000_000
    assert {path.suffix for path in (folder / "figures").iterdir()} == {".png", ".svg"}
    words = row["command"].split()[1:]
    assert words[0] == "reproduce"
    monkeypatch.setitem(sys.modules, "plotly.offline", None)  # as where it is not installed
    status, out, _ = crossgrad(*words)
    assert status == 0
    assert "2 of them run before" in out
    assert "No page: a page needs the extra 'report'; plotly.offline is not installed." in out


def test_table_1_is_measured(crossgrad):
    status, out, _ = crossgrad("reproduce", "table1", "--agents", 5, "--out", "here")
    assert status == 0
    assert "CompCGA" in out
    assert "Table 1 for 5 agents, ring" in Path("here/table1.md").read_text()


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "results" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_page_are_those_of_the_kept_runs():
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert script("tables").filled(page) == page
    assert page.count("<!-- end -->") >= 2


def test_what_is_left_to_run_is_what_the_kept_runs_lack():
    page = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    assert script("remaining").filled(page) == page
    assert page.count("<!-- remaining -->") == 1


def test_the_commands_of_what_is_left_name_the_cells_that_are_counted():
    remaining = script("remaining")
    for plan in remaining.PLANS:
        choice = Choice(
            plan.table, (plan.agents,), (plan.graph,), plan.methods, plan.scale, float(plan.epochs), plan.seeds,
            plan.epochs, plan.table == remaining.MNIST, autocast=True,
        )  # fmt: skip
        assert sorted(choice.command().split(" --")) == sorted(plan.command.split(" --"))
        assert len(grid(choice).cells) == plan.seeds * len(plan.methods)
