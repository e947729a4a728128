"""Data of the agents: known data sets, their division among agents, and mini-batches."""

from crossgrad.data.agents import given, split
from crossgrad.data.batches import Batches
from crossgrad.data.datasets import DATASETS, DatasetInfo, load
from crossgrad.data.files.cifar import read_cifar10
from crossgrad.data.files.fetch import FetchError, fetch
from crossgrad.data.files.folders import candidates, find
from crossgrad.data.files.idx import read_idx
from crossgrad.data.files.streams import DataFileError
from crossgrad.data.partition import Partition
from crossgrad.data.picture import draw_partition
from crossgrad.data.pool import Pool
from crossgrad.data.strategies import IID, PARTITIONS, ByClass, Dirichlet, LabelQuantity, PartitionRule, Shards
from crossgrad.data.types import Samples, Source, Split

__all__ = [
    "DATASETS",
    "IID",
    "PARTITIONS",
    "Batches",
    "ByClass",
    "DataFileError",
    "DatasetInfo",
    "Dirichlet",
    "FetchError",
    "LabelQuantity",
    "Partition",
    "PartitionRule",
    "Pool",
    "Samples",
    "Shards",
    "Source",
    "Split",
    "candidates",
    "draw_partition",
    "fetch",
    "find",
    "given",
    "load",
    "read_cifar10",
    "read_idx",
    "split",
]
