"""Experiments: a run described by a TOML file, and several of them compared."""

from crossgrad.experiments.experiment import Experiment
from crossgrad.experiments.files import parse, read, to_toml

__all__ = ["Experiment", "parse", "read", "to_toml"]
