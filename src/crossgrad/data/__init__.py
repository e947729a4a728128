"""Data of the agents: known data sets, their division among agents, and mini-batches."""

from crossgrad.data.agents import given, split
from crossgrad.data.augment import AUGMENTATIONS, Augment, CropFlip
from crossgrad.data.batches import Batches
from crossgrad.data.datasets import DATASETS, DatasetInfo, load
from crossgrad.data.dirichlet import Dirichlet, LabelAndQuantity
from crossgrad.data.files.cifar import read_cifar10
from crossgrad.data.files.fetch import FetchError, fetch
from crossgrad.data.files.folders import candidates, find
from crossgrad.data.files.idx import read_idx
from crossgrad.data.files.streams import DataFileError
from crossgrad.data.files.tables import from_csv, from_image_folder, from_npy, from_npz, from_parquet, read_column
from crossgrad.data.known_partitions import ByColumn, Given
from crossgrad.data.lazy import LazySamples
from crossgrad.data.partition import Partition, PartitionRule
from crossgrad.data.picture import draw_partition
from crossgrad.data.pool import Pool
from crossgrad.data.rules import PARTITIONS, as_rule
from crossgrad.data.strategies import IID, ByClass, LabelQuantity, Shards
from crossgrad.data.stream import StreamSamples, refuse_streams
from crossgrad.data.types import Samples, Source, Split

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "IID",
    "PARTITIONS",
    "Augment",
    "Batches",
    "ByClass",
    "ByColumn",
    "CropFlip",
    "DataFileError",
    "DatasetInfo",
    "Dirichlet",
    "FetchError",
    "Given",
    "LabelAndQuantity",
    "LabelQuantity",
    "LazySamples",
    "Partition",
    "PartitionRule",
    "Pool",
    "Samples",
    "Shards",
    "Source",
    "Split",
    "StreamSamples",
    "as_rule",
    "candidates",
    "draw_partition",
    "fetch",
    "find",
    "from_csv",
    "from_image_folder",
    "from_npy",
    "from_npz",
    "from_parquet",
    "given",
    "load",
    "read_cifar10",
    "read_column",
    "read_idx",
    "refuse_streams",
    "split",
]
