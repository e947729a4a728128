"""Samples come from the files that people have: CSV, numpy's, folders of images."""

import importlib.util

import numpy as np
import pytest
import torch
from matplotlib.image import imsave

from crossgrad.data import (
    ByColumn,
    DataFileError,
    LazySamples,
    from_csv,
    from_image_folder,
    from_npy,
    from_npz,
    from_parquet,
    read_column,
)

TABLE = "age,dose,site,ill\n50,1.5,a,yes\n61,2,b,no\n40,0.5,a,no\n"


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path / "t.csv"


def test_a_table_gives_inputs_labels_and_a_partition_by_site(table):
    samples = from_csv(table, "ill", ["age", "dose"])
    assert samples.inputs.tolist() == [[50.0, 1.5], [61.0, 2.0], [40.0, 0.5]]
    assert samples.labels.tolist() == [1, 0, 0]
    partition = ByColumn(read_column(table, "site"))(samples.labels.numpy(), 2, 0)
    assert [held.tolist() for held in partition.indices] == [[0, 2], [1]]


def test_whole_number_labels_are_classes_and_others_are_regressed_on(tmp_path):
    (tmp_path / "t.csv").write_text("x,k,z\n1,3,0.5\n2,4,1\n")
    assert from_csv(tmp_path / "t.csv", "k", ["x"]).labels.dtype == torch.int64
    assert from_csv(tmp_path / "t.csv", "z", ["x"]).labels.dtype == torch.float32


@pytest.mark.parametrize(
    ("content", "label", "sentence"),
    [
        (TABLE, "sick", "must have a column 'sick'; found age, dose, site, ill"),
        (TABLE, "ill", "inputs must be numbers; those in column 'site' are others"),
        ("a,b\n1,x\n2,\n", "b", "column 'b' must have a value in every row; 1 have none, the first of them row 2"),
        ("a,b\n1,x\n,y\n", "b", "column 'a' must have a value in every row; 1 have none, the first of them row 2"),
        ("a,b\n1\n", "a", "line 2: expected 2 values; found 1"),
        ("a,b\n", "a", "at least one row"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_in_one_sentence(tmp_path, content, label, sentence):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataFileError, match=sentence):
        from_csv(tmp_path / "t.csv", label)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is not None, reason="pyarrow is installed")
def test_a_parquet_file_without_pyarrow_names_the_package(tmp_path):
    with pytest.raises(ModuleNotFoundError, match="pip install pyarrow"):
        from_parquet(tmp_path / "t.parquet", "y")


def test_a_parquet_file_gives_the_samples_of_its_table(table):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow_csv = pytest.importorskip("pyarrow.csv")
    parquet.write_table(arrow_csv.read_csv(table), table.with_suffix(".parquet"))
    samples = from_parquet(table.with_suffix(".parquet"), "ill", ["age", "dose"])
    assert samples.inputs.equal(from_csv(table, "ill", ["age", "dose"]).inputs)


def test_numpy_files_are_read_whole_or_mapped(tmp_path):
    x, y = np.random.default_rng(0).random((5, 3), np.float32), np.arange(5)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    whole, mapped = from_npz(tmp_path / "a.npz"), from_npy(tmp_path / "x.npy", tmp_path / "y.npy")
    assert isinstance(mapped, LazySamples)
    assert isinstance(mapped.source.inputs, np.memmap)
    assert whole.inputs.equal(mapped.inputs)
    assert whole.labels.equal(mapped.labels)
    with pytest.raises(DataFileError, match="must hold an array 'z'; found x, y"):
        from_npz(tmp_path / "a.npz", inputs="z")


def test_a_folder_per_class_gives_images_of_zero_to_one(tmp_path):
    for name, value in (("cat", 255), ("dog", 0)):
        (tmp_path / name).mkdir()
        imsave(tmp_path / name / "1.png", np.full((4, 6, 3), value, np.uint8))
    samples = from_image_folder(tmp_path)
    assert (len(samples), samples.shape, samples.labels.tolist()) == (2, (3, 4, 6), [0, 1])
    assert samples.inputs.amax((1, 2, 3)).tolist() == [1.0, 0.0]
    with pytest.raises(DataFileError, match="no image in any"):
        from_image_folder(tmp_path / "cat")


@pytest.mark.parametrize("content", [b"", b"no image", None])
def test_an_image_that_cannot_be_read_was_not_named(content, tmp_path):
    path = tmp_path / "cat" / "0.png"
    path.parent.mkdir()
    imsave(path, np.random.default_rng(0).random((9, 9, 3)))
    path.write_bytes(path.read_bytes()[:100] if content is None else content)
    with pytest.raises(DataFileError, match=r"cat/0.png must be an image that can be read; found this fault: .*\. Rep"):
        from_image_folder(tmp_path).piece(0, 1)
