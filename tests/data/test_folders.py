"""Data is looked for in the folder that is passed, in $CROSSGRAD_DATA, and in the user's cache, in that order."""

from pathlib import Path

import pytest

from crossgrad.data import candidates, find
from crossgrad.data.files.folders import cache_folder


def test_candidates_are_root_then_variable_then_cache(alone, monkeypatch, tmp_path):
    monkeypatch.setenv("CROSSGRAD_DATA", str(tmp_path / "variable"))
    assert candidates("mnist", tmp_path / "root") == [
        tmp_path / "root" / "mnist",
        tmp_path / "root",
        tmp_path / "variable" / "mnist",
        tmp_path / "variable",
        alone / "crossgrad" / "mnist",
    ]


def test_a_home_is_written_as_a_tilde(alone, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert candidates("mnist", "~/data")[1] == tmp_path / "data"


def test_a_relative_or_missing_cache_variable_means_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_folder() == tmp_path / ".cache" / "crossgrad"


def test_without_a_home_there_is_no_cache(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("CROSSGRAD_DATA", raising=False)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert candidates("mnist") == []
    with pytest.raises(FileNotFoundError, match=r"must lie in one of the folders \(none\); it was not found"):
        find("mnist")


@pytest.mark.parametrize("where", ["root", "root/mnist", "variable", "variable/mnist", "cache/crossgrad/mnist"])
def test_data_is_found_in_every_candidate(alone, monkeypatch, tmp_path, fake_mnist, where):
    monkeypatch.setenv("CROSSGRAD_DATA", str(tmp_path / "variable"))
    fake_mnist(tmp_path / where)
    assert find("mnist", tmp_path / "root") == tmp_path / where


def test_the_folder_of_the_name_comes_first(alone, tmp_path, fake_mnist):
    fake_mnist(tmp_path)
    fake_mnist(tmp_path / "fashion-mnist")
    assert find("fashion-mnist", tmp_path) == tmp_path / "fashion-mnist"


def test_an_archive_itself_can_be_the_root(alone, tmp_path):
    (tmp_path / "my.tar").write_bytes(b"x")
    assert find("cifar10", tmp_path / "my.tar") == tmp_path / "my.tar"


def test_missing_data_is_listed_with_the_command_that_fetches_it(alone, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`crossgrad data fetch cifar10`") as caught:
        find("cifar10", tmp_path / "root")
    for folder in candidates("cifar10", tmp_path / "root"):
        assert str(folder) in str(caught.value)


def test_a_folder_that_lacks_one_file_is_named_with_it(alone, tmp_path, fake_mnist):
    (fake_mnist(tmp_path) / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks t10k-labels-idx1-ubyte.gz"):
        find("mnist", tmp_path)


def test_an_unknown_name_is_met_with_a_guess():
    with pytest.raises(ValueError, match="did you mean mnist"):
        find("mnits")
    with pytest.raises(ValueError, match="choose one of cifar10, digits, fashion-mnist, mnist"):
        find("???")


def test_digits_needs_no_folder():
    with pytest.raises(ValueError, match="scikit-learn"):
        find("digits")
