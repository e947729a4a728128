"""Every public name is documented as the API reference needs it."""

import dataclasses
import importlib
import inspect

import pytest

import crossgrad
from crossgrad.algorithms import ALGORITHMS
from crossgrad.codecs import CODECS
from crossgrad.data import AUGMENTATIONS, PARTITIONS
from crossgrad.graphs import GRAPHS

ROOMS = ("algorithms", "codecs", "data", "experiments", "graphs", "models", "records", "tasks", "theory")


def public():
    """Functions and classes that users may import, each once, by the name they are known under."""
    found = {}
    for room in ("", *ROOMS):
        module = importlib.import_module(f"crossgrad.{room}".rstrip("."))
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                found[thing] = f"{module.__name__}.{name}"
    return {name: thing for thing, name in found.items()}


PUBLIC = public()


def takes_arguments(thing):
    if inspect.isclass(thing):
        if dataclasses.is_dataclass(thing):
            return any(field.init for field in dataclasses.fields(thing))
        return False
    return bool(inspect.signature(thing).parameters)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_summary_and_says_what_its_arguments_are(name):
    thing = PUBLIC[name]
    text = inspect.getdoc(thing) or ""
    summary = text.partition("\n")[0]
    assert summary.endswith((".", ":")), "a sentence"
    assert not text.startswith(f"{thing.__name__}("), "a docstring of its own"
    if takes_arguments(thing):
        assert any(f"\n{word}:" in text for word in ("Args", "Attributes")), "an Args section"


FAMILIES = {name: getattr(crossgrad.graphs, name.replace("-", "_"), spec) for name, spec in GRAPHS.items()}
REGISTERED = ALGORITHMS | CODECS | PARTITIONS | AUGMENTATIONS | FAMILIES
FROM_FILES_AND_PLAIN = {"edge-list", "weight-matrix", "exact", "iid"}


@pytest.mark.parametrize("name", sorted(REGISTERED.keys() - FROM_FILES_AND_PLAIN))
def test_every_algorithm_graph_partition_and_codec_names_where_it_comes_from(name):
    thing = REGISTERED[name]
    text = f"{inspect.getdoc(thing)}{inspect.getdoc(inspect.getmodule(thing))}"
    assert "Reference" in text, "a Reference section, here or of the module"
    assert "arXiv:" in text or "doi:" in text, "an identifier"
