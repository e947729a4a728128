"""What is seen on a terminal."""

import re
from pathlib import Path

from crossgrad.experiments.files import read

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits-ring.toml"


def test_a_terminal_shows_live_progress_that_fits_into_its_lines(small, only_run, on_a_terminal):
    status, seen = on_a_terminal("run", small, "training.steps=300", "training.evaluate_every=20")
    assert status == 0
    assert "\x1b[1A" in seen, "nothing is drawn over"
    lines = [line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)) if line.strip()]
    assert all(len(line) <= 80 for line in lines if not line.startswith("Records"))
    assert not any("…" in line for line in lines), "something is cut off"
    assert any(re.search(r"^training ━.* +\d+/300 \S+ steps/s \d:\d\d:\d\d left$", line) for line in lines)
    assert any(re.search(r"^step \d+  loss \S+  accuracy \S+ \(mean agent \S+, worst \S+\)$", line) for line in lines)
    assert lines[-1].strip() == f"Records, model and settings: {only_run()}"


def test_the_example_that_the_help_names_is_there():
    assert read(EXAMPLE).name == "digits-ring"
