"""The page of the proofs says what their files say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_figures_of_the_page_are_those_of_the_proofs():
    spec = importlib.util.spec_from_file_location("table", ROOT / "proofs" / "table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    page = (ROOT / "docs" / "reliability.md").read_text()
    assert page.endswith(table.HERE + "\n" + table.figures(ROOT / "docs" / "reliability"))
