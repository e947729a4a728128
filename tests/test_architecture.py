"""Imports point one way."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import crossgrad

SOURCE = Path(crossgrad.__file__).parent

ROOT = Path(__file__).parents[1]
DESIGN = ROOT / "docs" / "design.md"
ROW = re.compile(r"\| (\d+) \| `(\w+)` \| .+ \|")


def rooms():
    """The level of every room, as docs/design.md has it."""
    return {room: int(level) for level, room in ROW.findall(DESIGN.read_text())}


def imports(path):
    """The parts of crossgrad that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "crossgrad":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crossgrad."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("crossgrad."))


def test_imports_go_to_rooms_of_a_smaller_level():
    level = rooms()
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        assert room in level, f"{room} has no row in the table of rooms in docs/design.md"
        for other in set(imports(path)) - {room, "__version__"}:
            assert level[other] < level[room], f"{path} imports {other}"


def test_the_table_of_rooms_lists_no_room_that_does_not_exist():
    there = {path.name.removesuffix(".py") for path in SOURCE.iterdir()}
    assert rooms().keys() <= there


def test_a_constant_is_defined_in_one_module():
    """One name, one meaning: GRAPHS and METHODS once stood for another table in each of three modules."""
    homes = {}
    for path in SOURCE.rglob("*.py"):
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                stored = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
                for name in filter(re.compile(r"[A-Z][A-Z\d_]+").fullmatch, stored):
                    homes.setdefault(name, set()).add(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
    assert len(homes) > 300, "the constants were not found"


def test_algorithms_know_nothing_of_networks_data_or_processes():
    for path in (SOURCE / "algorithms").glob("*.py"):
        assert not set(imports(path)) & {"_network", "data", "models", "_gradients", "graphs", "_training"}
        assert "torch.distributed" not in path.read_text()


def test_reports_read_records_only():
    for path in (SOURCE / "_report").glob("*.py"):
        assert set(imports(path)) <= {"_report", "records", "_runs", "_storage"}


def test_importing_the_package_imports_no_torch():
    code = "import sys, crossgrad, crossgrad._cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_everything_that_is_offered_exists_and_is_typed():
    tree = ast.parse((SOURCE / "__init__.pyi").read_text())
    typed = {
        alias.asname: getattr(import_module(f".{node.module}", "crossgrad") if node.module else crossgrad, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert {name: getattr(crossgrad, name) for name in crossgrad.__all__ if name != "__version__"} == typed


SCRIPTS = sorted(
    path for room in ("benchmarks", "examples", "proofs", "results") for path in (ROOT / room).glob("*.py")
)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_a_script_imports_from_the_package_exists(path):
    """Renamed classes had left two benchmarks behind, which no test runs."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "crossgrad":
            module = import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or find_spec(f"{node.module}.{name.name}")
