"""The page on simulated time says what was measured."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_table_of_the_page_is_that_of_the_measurement():
    spec = importlib.util.spec_from_file_location("simulated_time", ROOT / "results" / "simulated_time.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "time.md").read_text(encoding="utf-8")
    assert module.filled(page) == page
    assert "| dpsgd | ring |" in page
