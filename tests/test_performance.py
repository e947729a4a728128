"""The page of speed and memory says what the benchmarks found."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location("table_of_targets", ROOT / "benchmarks" / "table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_of_the_page_are_those_of_the_benchmarks(table):
    results, page = ROOT / "benchmarks" / "results", (ROOT / "docs" / "performance.md").read_text()
    figures = table.figures(results)
    assert table.page(results, page) == page
    assert figures in page
    assert (results / "profiles.md").read_text().strip() in page
    assert (results / "targets.md").read_text() == figures


def test_a_target_is_met_only_where_every_case_meets_it(table):
    assert table.Target("a", "<= 1", [0.5, 1.0], 1.0).row() == ["a", "<= 1", "0.50 to 1.00", "met"]
    assert table.Target("a", "<= 1", [0.5, 1.1], 1.0).row()[-1] == "met in 1 of 2 cases"
    assert table.Target("a", ">= 2", [1.9], 2.0, at_least=True).row() == ["a", ">= 2", "1.90", "missed"]
