"""Imports point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import crossgrad

SOURCE = Path(crossgrad.__file__).parent

# Each may import only what stands in the lines above its own.
LAYERS = [
    {"randomness", "shard", "graphs", "qp", "config", "schedule", "records", "durable", "blocks", "mixing"},
    {"codec", "data", "traffic", "models", "settings", "tensorfile", "faults", "recordfile", "flat"},
    {"wire", "watch"},
    {"post"},
    {"algorithms", "compiled", "layout"},
    {"buffers", "batched", "activations"},
    {"oracle", "network", "finite"},
    {"metrics", "checks", "group", "distributed", "presence"},
    {"process", "rehearsal", "evaluation"},
    {"memory"},
    {"optim"},
    {"train"},
    {"snapshot", "theory"},
    {"checkpoint", "experiment", "fitting"},
    {"results"},
    {"introduction", "rundir", "comparison", "report", "paper"},
    {"running"},
    {"sweep"},
    {"reproduction"},
    {"cli"},
]


def imports(path):
    """The parts of crossgrad that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "crossgrad":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crossgrad."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("crossgrad."))


def test_imports_point_down_only():
    level = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    for path in SOURCE.rglob("*.py"):
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if part in ("__init__", "__main__"):
            continue
        assert part in level, f"{part} has no place in the layers"
        for other in set(imports(path)) - {part, "__version__"}:
            assert level[other] < level[part], f"{path} imports {other}"


def test_algorithms_know_nothing_of_networks_data_or_processes():
    for path in (SOURCE / "algorithms").glob("*.py"):
        assert not set(imports(path)) & {"network", "data", "models", "oracle", "traffic", "graphs", "train"}
        assert "torch.distributed" not in path.read_text()


def test_reports_read_records_only():
    for path in (SOURCE / "report").glob("*.py"):
        assert set(imports(path)) <= {"report", "records", "results", "durable"}


def test_importing_the_package_imports_no_torch():
    code = "import sys, crossgrad, crossgrad.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_everything_that_is_offered_exists_and_is_typed():
    for name in crossgrad.__all__:
        assert getattr(crossgrad, name) is getattr(crossgrad, name)
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    typed = {a.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names if a.asname}
    assert typed == set(crossgrad.__all__) - {"__version__"}
