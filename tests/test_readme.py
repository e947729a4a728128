"""What the README shows works as it stands."""

import re
import shlex
from pathlib import Path

import pytest

from crossgrad._cli.main import app
from crossgrad._sweep.grid import read_grid
from crossgrad._tuning.file import read_tuning
from crossgrad.experiments import files

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_opening_example_runs_learns_and_is_short(capsys):
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["result"].status == "ok"
    assert names["result"].records[-1].accuracy > 0.9
    assert "Linear" in capsys.readouterr().out


def test_the_experiment_of_the_readme_is_valid():
    (text,) = blocks("toml")
    assert files.parse(text).agents == 10


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.name)
def test_every_example_is_valid_and_fits_together(path):
    if path.stem.endswith("-tune"):
        first = files.from_table(read_tuning(path).entries[0].table)
    else:
        first = read_grid(path).cells[0].experiment if path.stem.endswith("-grid") else files.read(path)
    first.start()


def test_the_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+) ", README):
        assert f"\n{target}:" in makefile, target


def test_the_commands_of_the_readme_are_understood():
    """Parsed by the command line itself, with files that exist."""
    import typer

    command = typer.main.get_command(app)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("crossgrad ")]
    assert len(lines) >= 6
    for line in lines:
        _, name, *arguments = shlex.split(line, comments=True)
        sub = command.commands[name]
        if hasattr(sub, "commands"):
            name, *arguments = arguments
            sub = sub.commands[name]
        sub.make_context(name, list(arguments))
        for argument in arguments:
            if argument.endswith(".toml"):
                read = read_grid if name == "sweep" else files.read
                read(ROOT / argument, [a for a in arguments if "=" in a])


def test_every_dependency_has_its_reason():
    text = (ROOT / "pyproject.toml").read_text()
    needed = re.search(r"\ndependencies = \[\n(.*?)\]", text, flags=re.DOTALL).group(1)
    assert all("#" in line for line in needed.strip().splitlines())
