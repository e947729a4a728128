"""The page on many agents and sparse graphs says what its runs say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_tables_of_the_page_are_those_of_the_kept_runs():
    spec = importlib.util.spec_from_file_location("open_problem", ROOT / "results" / "open_problem.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "open-problem.md").read_text(encoding="utf-8")
    assert module.filled(page) == page
    assert "| 2 and more | 17 | 0 |" in page
    assert page.count("<!-- end -->") == 6
