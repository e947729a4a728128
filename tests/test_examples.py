"""The examples run, say what they are, and what they print is what the documentation shows."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHORT = {  # options with which an example takes a few seconds
    "hospitals": {"steps": 30, "seeds": 1},
    "text": {"steps": 6},
    "images": {"steps": 10},
    "segmentation": {"steps": 4},
    "adapters": {"owner_steps": 10, "steps": 6},
    "sites": {"steps": 20},
}


def example(name):
    """The example's module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SHORT)
def test_the_example_runs(name, capsys):
    found = example(name).main(**SHORT[name])
    assert found
    assert capsys.readouterr().out.count("\n") >= 2


def test_only_the_adapters_of_a_frozen_model_travel():
    found = example("adapters").main(**SHORT["adapters"])
    assert found["sent"] == 2 * 4 * found["trainable"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_the_example_prints_what_the_documentation_shows(name, capsys):
    example(name).main()
    printed = capsys.readouterr().out
    shown = (ROOT / "docs" / "examples" / f"{name}.txt").read_text()
    assert words(printed) == words(shown)
    for new, old in zip(numbers(printed), numbers(shown), strict=True):
        assert new == pytest.approx(old, rel=0.1, abs=0.05), (printed, shown)  # another processor rounds otherwise


def words(text):
    return re.sub(r"-?\d[\d,.]*|\(worse together\)|\s+", " ", text).split()


def numbers(text):
    return [float(number.replace(",", "").rstrip(".")) for number in re.findall(r"-?\d[\d,.]*", text)]


def test_the_page_of_examples_shows_what_they_printed():
    page = (ROOT / "docs" / "examples.md").read_text()
    for name in SHORT:
        assert (ROOT / "docs" / "examples" / f"{name}.txt").read_text() in page, name


def test_examples_are_listed_copied_and_part_of_the_package(crossgrad, tmp_path):
    listed = crossgrad("examples").out
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix in (".py", ".toml"):
            assert re.search(rf"^{path.stem} +[A-Z`]", listed, re.MULTILINE), path.name
    assert crossgrad("examples", "hospitals", "--copy", tmp_path).out == f"{tmp_path / 'hospitals.py'}\n"
    assert (tmp_path / "hospitals.py").read_text() == (ROOT / "examples" / "hospitals.py").read_text()
    assert "not overwritten" in crossgrad("examples", "hospitals", "--copy", tmp_path).err
    assert "Valid are: adapters" in crossgrad("examples", "unknown").err
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["force-include"] == {"examples": "crossgrad/_examples"}
