"""What every test of experiment files needs."""

from pathlib import Path

import pytest

from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.files import read

BASE = Path(__file__).with_name("base.toml").read_text()


@pytest.fixture
def complaint(tmp_path):
    """The sentence about a file with this content and these changes."""

    def find(content: str | bytes = BASE, *changes: str) -> str:
        path = tmp_path / "experiment.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ConfigError) as error:
            read(path, list(changes))
        message = str(error.value)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
        assert message.endswith(".")
        return message.removeprefix(f"{path}: ")

    return find
