"""What the documentation names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page):
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "proofs", "examples", "results")]
    there = [str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*.py")]
    named = set(re.findall(r"`([a-z_0-9/]+\.py)`", page.read_text()))
    missing = {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)}
    assert not missing
