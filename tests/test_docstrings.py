"""Every public name is documented as the API reference needs it."""

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

import crossgrad
from crossgrad.algorithms import ALGORITHMS
from crossgrad.codecs import CODECS
from crossgrad.data import AUGMENTATIONS, PARTITIONS
from crossgrad.graphs import GRAPHS
from crossgrad.guards import ROBUST_RULES

ROOMS = [room.name for room in pkgutil.iter_modules(crossgrad.__path__) if not room.name.startswith("_")]


def public():
    """Functions and classes that users may import, each once, by the name they are known under."""
    found = {}
    for room in ("", *ROOMS):
        module = importlib.import_module(f"crossgrad.{room}".rstrip("."))
        for name in getattr(module, "__all__", ()):  # fit, optim and federations are offered at the top
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                found[thing] = f"{module.__name__}.{name}"
    return {name: thing for thing, name in found.items()}


PUBLIC = public()


def takes_arguments(thing):
    if inspect.isclass(thing):
        return bool(arguments(thing))
    return bool(inspect.signature(thing).parameters)


def arguments(thing):
    """The arguments that a user may give; a subclass may leave those of its base to the base."""
    if inspect.isclass(thing):
        if "__init__" not in vars(thing) or getattr(thing, "_is_protocol", False):
            return []
        if dataclasses.is_dataclass(thing) and "__dataclass_fields__" in vars(thing):
            return [field.name for field in dataclasses.fields(thing) if field.init and field.name[0] != "_"]
        return list(inspect.signature(thing.__init__).parameters)[1:]
    return list(inspect.signature(thing).parameters)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_summary_and_says_what_its_arguments_are(name):
    thing = PUBLIC[name]
    text = inspect.getdoc(thing) or ""
    summary = text.partition("\n")[0]
    assert summary.endswith((".", ":")), "a sentence"
    assert not text.startswith(f"{thing.__name__}("), "a docstring of its own"
    if takes_arguments(thing):
        assert any(f"\n{word}:" in text for word in ("Args", "Attributes")), "an Args section"
    unnamed = [
        argument for argument in arguments(thing) if not re.search(rf"^ +\**{argument}\b.*:", text, re.MULTILINE)
    ]
    assert not unnamed, "a line for each argument"


FAMILIES = {name: getattr(crossgrad.graphs, name.replace("-", "_"), spec) for name, spec in GRAPHS.items()}
REGISTRIES = (ALGORITHMS, CODECS, PARTITIONS, AUGMENTATIONS, FAMILIES, ROBUST_RULES)
REGISTERED = [(name, thing) for registry in REGISTRIES for name, thing in registry.items()]
FROM_FILES_AND_PLAIN = {"edge-list", "weight-matrix", "exact", "iid"}
ROOMS_WITH_EXAMPLES = ("crossgrad.algorithms", "crossgrad.codecs", "crossgrad.graphs")
INTERFACES = {"Needs", "OptimRule", "AnyGraph"}  # an enumeration and two base classes; protocols are left out besides
REFERENCE = re.compile(r"[A-Z][^:]+: .+?[.?] .*?\b(19|20)\d\d\b.*?(arXiv:\d{4}\.\d{4,5}|doi:10\.\S+)")


@pytest.mark.parametrize(
    ("name", "thing"), [pytest.param(*pair, id=pair[0]) for pair in REGISTERED if pair[0] not in FROM_FILES_AND_PLAIN]
)
def test_every_algorithm_graph_partition_and_codec_names_where_it_comes_from(name, thing):
    """Authors, title, year and an identifier, in its own docstring or in that of its module."""
    texts = (inspect.getdoc(thing) or "", inspect.getdoc(inspect.getmodule(thing)) or "")
    references = [" ".join(text.partition("Reference")[2].split()) for text in texts if "Reference" in text]
    assert references, "a Reference section, here or of the module"
    assert any(REFERENCE.search(reference) for reference in references), references


def with_example():
    """What users make objects of, or call, in these rooms, and every partition."""
    in_rooms = [thing for thing in PUBLIC.values() if thing.__module__.startswith(ROOMS_WITH_EXAMPLES)]
    partitions = [*PARTITIONS.values(), crossgrad.data.ByColumn, crossgrad.data.Given]
    found = [*in_rooms, *(thing for registry in (ALGORITHMS, CODECS) for thing in registry.values()), *partitions]
    interfaces = [thing for thing in found if getattr(thing, "_is_protocol", False) or thing.__name__ in INTERFACES]
    return list(dict.fromkeys(thing for thing in found if thing not in interfaces))


@pytest.mark.parametrize("thing", with_example(), ids=lambda thing: thing.__name__)
def test_every_algorithm_graph_partition_and_codec_has_an_example_with_a_result(thing):
    """The examples run as doctests; one without an expected output would show nothing."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")
    assert any(example.want.strip(" .\n") for example in examples), "an example, and what comes of it"
