"""Data sets are found, or it is said where they were looked for."""

import gzip
from pathlib import Path


def test_where_data_sets_are_looked_for_is_said(crossgrad, tmp_path):
    answer = crossgrad("data", "where")
    assert answer.status == 0
    assert "digits: comes with scikit-learn" in answer.out
    for name in ("mnist", "fashion-mnist", "cifar10"):
        assert f"{name}: not found; looked in {tmp_path / 'cache' / 'crossgrad' / name}" in answer.out
        assert f"crossgrad data fetch {name}\n" in answer.out


def test_a_data_set_that_is_there_is_found(crossgrad, tmp_path, fake_mnist):
    fake_mnist(tmp_path / "cache" / "crossgrad" / "mnist")
    assert crossgrad("data", "where", "mnist").out == f"mnist: found in {tmp_path / 'cache' / 'crossgrad' / 'mnist'}\n"
    assert crossgrad("data", "where", "digits").out == "digits: comes with scikit-learn\n"


def test_a_data_set_nobody_knows_is_neither_found_nor_fetched(crossgrad, is_one_sentence):
    assert is_one_sentence(crossgrad("data", "where", "minst"), "'minst'", "Did you mean 'mnist'?")
    assert is_one_sentence(crossgrad("data", "fetch", "nonsense"), "'nonsense'", "cifar10", "mnist")
    assert is_one_sentence(crossgrad("data", "fetch", "digits"), "comes with scikit-learn")


def test_a_folder_to_fetch_into_that_is_a_file_is_refused(crossgrad, is_one_sentence):
    Path("file").write_text("mine")
    assert is_one_sentence(crossgrad("data", "fetch", "mnist", "--into", "file"), "file")


def test_a_missing_data_set_says_where_it_was_looked_for_and_what_to_run(crossgrad, small, tmp_path, is_one_sentence):
    answer = crossgrad("run", small, "data=mnist")
    assert is_one_sentence(answer, str(tmp_path / "cache" / "crossgrad" / "mnist"), "`crossgrad data fetch mnist`")
    assert not Path("runs").exists()


def test_a_run_on_files_of_mnist_and_on_broken_ones(crossgrad, small, is_one_sentence, fake_mnist):
    folder = fake_mnist(Path("my data"))
    assert crossgrad("run", small, "data=mnist", "data.root=my data", "--quiet").status == 0
    images = folder / "train-images-idx3-ubyte.gz"
    whole = images.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"<html>Not found</html>", gzip.compress(b"\0\0\x08\x03")):
        images.write_bytes(broken)
        answer = crossgrad("run", small, "data=mnist", "data.root=my data")
        assert is_one_sentence(answer, "small.toml: ", str(images), "Fetch or copy it again")
