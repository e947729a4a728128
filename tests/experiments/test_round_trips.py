"""Experiments are written and read back, with changes from the command line."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from crossgrad._cli.run import SHORTEST_EXPERIMENT
from crossgrad._training.schedule import SCHEDULES, Cosine, Step, WarmUp
from crossgrad.algorithms import (
    ALGORITHMS,
    CGA,
    DPMSGD,
    DPSGD,
    Mean,
    Projection,
    comp_cga,
    released_cga,
    released_comp_cga,
)
from crossgrad.codecs import Codec, Exact, Quantised, ScaledSign, TopK
from crossgrad.data import PARTITIONS, CropFlip
from crossgrad.experiments.choices import DataChoice
from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.experiment import Experiment
from crossgrad.experiments.files import parse, read, to_toml
from crossgrad.graphs import GRAPHS
from crossgrad.models.zoo import MLP, MODELS

BASE = Path(__file__).with_name("base.toml").read_text()
NEEDED = {"edge-list": {"path": "some graph.txt"}, "weight-matrix": {"path": "weights.npy"}}


def there_and_back(experiment: Experiment) -> Experiment:
    return parse(to_toml(experiment))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_written_and_read_back(name):
    experiment = parse(BASE, [f"algorithm={name}"])
    assert there_and_back(experiment) == experiment


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_is_written_and_read_back(name):
    options = [f"graph.{key}={value}" for key, value in NEEDED.get(name, {}).items()]
    experiment = parse(BASE, [f"graph={name}", *options])
    assert there_and_back(experiment) == experiment


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind, names in (("model", MODELS), ("partition", PARTITIONS), ("schedule", SCHEDULES))
        for name in names
    ],
)
def test_every_model_partition_and_schedule_is_written_and_read_back(kind, name):
    experiment = parse(BASE, [f"{kind}={name}"])
    assert there_and_back(experiment) == experiment


@pytest.mark.parametrize(
    "changes",
    [
        ["schedule=warm-up", "schedule.epochs=3", "schedule.then.name=cosine", "schedule.then.final=0.001"],
        ["schedule.name=step", "schedule.at=[1, 2.5]", "schedule.factor=0.5"],
        ["algorithm=cga", "algorithm.aggregate.name=projection", "algorithm.aggregate.margin=0.25"],
        ["algorithm=cga", "algorithm.codec=scaled-sign", "algorithm.own_codec=exact"],
        ["algorithm=cga", "algorithm.own_codec.name=scaled-sign", "algorithm.own_codec.feedback=false"],
        ["model.name=mlp", "model.hidden=[]"],
        ["model.name=mlp", "model.hidden=[3, 2, 1]"],
        ["model.name=vgg11", "model.group_norm=true"],
        ["graph=erdos-renyi", "graph.probability=0.7", "graph.seed=5"],
        ["data.name=mnist", 'data.root="/a folder/with \\"quotes\\""'],
        ["data.name=mnist", "data.shrink=2"],
        ["training={ epochs = 1e-3, batch_size = 7, dtype = 'float64', evaluate_every = 3 }"],
        ["name=Größe Nr. 1", "seed=123456789012345678"],
        ["faults.leave=0.01", "faults.drop=0.1", "faults.away=7", "faults.straggle=1"],
        ["faults={ absences = [[3, 100, 150], [0, 0, 1]] }"],
        ["gossip.rounds=3", "gossip.chebyshev=true", "gossip.gamma=0.5"],
        ["gossip={ codec = { name = 'quantised', bits = 3 }, rounds = 2 }"],
        ["gossip.codec=top-k", "gossip.codec.share=0.2"],
    ],
    ids=" ".join,
)
def test_options_and_nested_tables_are_written_and_read_back(changes):
    experiment = parse(BASE, changes)
    assert there_and_back(experiment) == experiment
    assert experiment != parse(BASE)


def test_a_resolved_experiment_spells_out_every_field():
    text = to_toml(parse(BASE, ["algorithm=cga"]))
    for line in ("seed = 0", "momentum = 0.98", "margin = 0.0", 'name = "exact"', "decay = 0.981", "batch_size = 32"):
        assert line in text.splitlines()


def test_an_experiment_with_one_exact_round_is_written_as_before_there_was_a_choice():
    """Folders of runs and cells of sweeps are known by this text."""
    assert "gossip" not in to_toml(parse(BASE, ["gossip.rounds=1"]))


def test_a_preset_is_what_its_function_makes_and_its_options_come_on_top():
    assert parse(BASE, ["algorithm=compcga"]).algorithm == comp_cga()
    assert parse(BASE, ["algorithm=cga-released"]).algorithm == released_cga()
    assert parse(BASE, ["algorithm=compcga-released"]).algorithm == released_comp_cga()
    assert parse(BASE, ["algorithm=cga-mean"]).algorithm == CGA(aggregate=Mean())
    slower = parse(BASE, ["algorithm=cga-released", "algorithm.momentum=0.5", "algorithm.codec=exact"]).algorithm
    assert slower == released_cga(momentum=0.5)
    assert slower.codec == Exact()


def test_a_resolved_preset_names_the_algorithm_and_its_fields():
    text = to_toml(parse(BASE, ["algorithm=compcga-released"]))
    assert 'name = "cga"' in text
    assert "[algorithm.own_codec]" in text
    assert "released" not in text


def test_changes_reach_nested_tables_lists_and_strings_with_spaces():
    experiment = parse(
        BASE,
        [
            "agents=7",
            "name=two words",
            'data.root="/a folder"',
            "model={ name = 'mlp', hidden = [8, 4] }",
            "schedule.name=warm-up",
            "schedule.then.name=cosine",
            "schedule.then.lr=0.5",
            "algorithm=cga",
            "algorithm.codec.name=scaled-sign",
            "algorithm.codec.per_tensor=true",
        ],
    )
    assert experiment.agents == 7
    assert experiment.name == "two words"
    assert experiment.data == DataChoice("digits", "/a folder")
    assert experiment.model == MLP((8, 4))
    assert experiment.schedule == WarmUp(then=Cosine(0.5))
    assert experiment.algorithm == CGA(aggregate=Projection(), codec=ScaledSign(per_tensor=True))


def test_naming_another_algorithm_leaves_nothing_of_the_old_table():
    text = BASE.replace('"dpsgd"', '{ name = "cga", momentum = 0.5, aggregate = "mean" }')
    assert parse(text, ["algorithm=dpmsgd"]).algorithm == DPMSGD()


def test_a_later_change_wins():
    assert parse(BASE, ["seed=1", "seed=2"]).seed == 2


def test_whole_numbers_serve_where_any_number_does():
    assert parse(BASE, ["schedule.name=step", "schedule.lr=1", "schedule.at=[1, 2]"]).schedule == Step(1.0, (1.0, 2.0))


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert read(path) == parse(BASE)


def test_the_experiment_in_the_help_is_one():
    assert parse(SHORTEST_EXPERIMENT).algorithm == CGA()


def test_augmentation_by_name_comes_back_and_changes_the_run():
    text = 'model="linear"\ngraph="ring"\nalgorithm="dpsgd"\npartition="iid"\nagents=3\n[training]\nsteps=3\n'
    plain = parse(text)
    augmented = parse(text, ["data.augment=crop-flip", "data.augment.padding=1"])
    assert augmented.data.augment == CropFlip(padding=1)
    assert parse(to_toml(augmented)) == augmented
    assert "augment" not in to_toml(plain)
    runs = [list(experiment.start())[-1].loss for experiment in (plain, augmented, augmented)]
    assert runs[0] != runs[1] == runs[2]


@dataclass(frozen=True)
class TwoCodecs(DPSGD):
    """DPSGD with options under names that no built-in algorithm has."""

    up: Codec = TopK(0.5)
    down: Codec | None = None
    inner: Any = None


def test_what_a_field_is_chosen_from_follows_from_its_type_whatever_its_name(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "two-codecs", TwoCodecs)
    default = parse(BASE, ["algorithm=two-codecs"])
    changed = parse(BASE, ["algorithm=two-codecs", "algorithm.up.name=quantised", "algorithm.down=exact"])
    assert changed.algorithm == TwoCodecs(up=Quantised(), down=Exact())
    assert [there_and_back(one) for one in (default, changed)] == [default, changed]
    with pytest.raises(ConfigError, match=r"algorithm.up.name: there is no 'top-l'. Did you mean 'top-k'"):
        parse(BASE, ["algorithm=two-codecs", "algorithm.up=top-l"])


def test_an_option_that_could_not_be_read_back_is_not_written(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "two-codecs", TwoCodecs)
    experiment = replace(parse(BASE), algorithm=TwoCodecs(inner=TopK()))
    with pytest.raises(ConfigError, match=r"inner is TopK.*Annotate it by a type of these: .*Codec"):
        to_toml(experiment)
