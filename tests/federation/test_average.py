"""The average of models from folders that come from elsewhere."""

import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from crossgrad.federation.average import average_models


@pytest.fixture
def site(tmp_path):
    """Makes a site's folder with these tensors."""

    def made(name, **tensors):
        (tmp_path / name).mkdir()
        if tensors:
            save_file(tensors, tmp_path / name / "model.safetensors")
        return tmp_path / name

    return made


def test_the_average_is_the_mean_also_where_the_sum_would_not_be_finite(site, tmp_path):
    ones, halves = (torch.full((2, 3), value, dtype=torch.float16) for value in (60000.0, 60000.0))
    a, b = site("a", w=ones, n=torch.tensor(7)), site("b", w=halves, n=torch.tensor(9))
    average_models([a, b], tmp_path / "out.safetensors")
    found = load_file(tmp_path / "out.safetensors")
    assert torch.equal(found["w"], torch.full((2, 3), 60000.0, dtype=torch.float16))
    assert found["n"] == 7


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({"w": torch.tensor([1.0, torch.nan])}, "finite numbers only; 'w' has others"),
        ({"w": torch.zeros(2, dtype=torch.float64)}, "holds another model than"),
        ({"w": torch.zeros(3)}, "holds another model than"),
        ({"v": torch.zeros(2)}, "holds another model than"),
        ({"w": torch.zeros(2).to(torch.float8_e4m3fn)}, "floating-point or whole numbers"),
        ({"w": torch.zeros(2, dtype=torch.complex64)}, "floating-point or whole numbers"),
        ({}, "must be a model; it is missing"),
    ],
)
def test_a_model_that_would_spoil_the_average_is_named(site, tmp_path, tensors, sentence):
    with pytest.raises(ValueError, match=sentence):
        average_models([site("a", w=torch.zeros(2)), site("b", **tensors)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nobody_is_counted_twice_and_no_model_is_written_over(site, tmp_path):
    a, b = site("a", w=torch.zeros(2)), site("b", w=torch.ones(2))
    (tmp_path / "again").symlink_to(a)
    with pytest.raises(ValueError, match="every site's model counts once"):
        average_models([a, b, tmp_path / "again"], tmp_path / "out")
    with pytest.raises(ValueError, match="one of the models to average"):
        average_models([a, b], b / "model.safetensors")


def test_pipes_links_and_files_without_end_in_a_folder_from_elsewhere_are_not_read(site, tmp_path):
    a = site("a", w=torch.zeros(2))
    os.mkfifo(site("pipe") / "model.safetensors")
    (site("link") / "model.safetensors").symlink_to("/dev/zero")
    (site("folder") / "model.safetensors").mkdir()
    with (site("endless") / "model.safetensors").open("wb") as file:
        file.truncate(1 << 40)
    (site("junk") / "model.safetensors").write_bytes(b"\xff" * 100)
    for name, sentence in (
        ("pipe", "must be a file"), ("link", "must be a file"), ("folder", "must be a file"),
        ("endless", "as large as the first model"), ("junk", "must be a model as a site writes it"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            average_models([a, tmp_path / name], tmp_path / "out")
