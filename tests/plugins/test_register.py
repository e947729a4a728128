"""What can be registered, what is refused, and where registered names work."""

import pickle
import sys
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad._registry import packages
from crossgrad._registry.origin import used
from crossgrad.experiments import parse, to_toml
from crossgrad.models import MLP
from crossgrad.plugins import KINDS, load_plugin
from crossgrad.tasks import METRICS

BASE = """
agents = 4
partition = "iid"
model = "linear"
graph = "ring"
algorithm = "dpsgd"
training = { steps = 2, threads = 1 }
"""


def net(shape, classes, width: int = 3, bias: bool = True):
    """A small net."""
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), width), nn.Linear(width, classes, bias=bias))


def test_a_functions_options_are_set_in_files_written_down_and_pickled():
    cg.register("model", "net", net)
    experiment = parse(BASE, ['model={name="net", width=5}'])
    assert (experiment.model.width, experiment.model.bias) == (5, True)
    assert "width = 5\nbias = true" in to_toml(experiment)
    assert parse(to_toml(experiment)) == experiment == pickle.loads(pickle.dumps(experiment))
    assert experiment.start().model.sizes == (64 * 5, 5, 50, 10)


def test_options_of_a_data_set_stand_beside_the_keys_that_all_have():
    @cg.register("data", "noise")
    def noise(samples: int, root=None):
        X = torch.randn(samples, 2, generator=torch.Generator().manual_seed(len(root)))
        return (X, (X[:, 0] > 0).long()), (X, (X[:, 0] > 0).long())

    experiment = parse(BASE, ['data={name="noise", samples=40, root="abc", own_test=0.1}'])
    assert parse(to_toml(experiment)) == experiment
    assert len(experiment.data.load().train) == 40
    assert experiment.start().status == "ok"
    with pytest.raises(ValueError, match=r"data.sample: noise has no key 'sample'. Did you mean 'samples'\?"):
        parse(BASE, ['data={name="noise", sample=40}'])
    with pytest.raises(ValueError, match="data: noise needs a value for samples; found none"):
        parse(BASE, ["data=noise"])
    with pytest.raises(ValueError, match=r"data.source: data has no key 'source'"):
        parse(BASE, ["data.source=3"])


def test_a_data_set_that_makes_tensors_when_it_is_read_gave_a_traceback():
    """A sample was read for its shape while the model was built on the device "meta", so it had no numbers."""

    class Drawn(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return torch.arange(3.0) + index, torch.tensor(index % 2)

    cg.register("data", "drawn", lambda: (Drawn(), Drawn()))
    training = parse(BASE, ["data=drawn"]).start()
    assert training.evaluate().accuracy is not None


def test_graphs_partitions_schedules_and_metrics_work_in_files_and_in_fit():
    cg.register("graph", "path", lambda agents: nx.path_graph(agents))
    cg.register("partition", "blocks", lambda labels, agents: np.array_split(np.arange(len(labels)), agents))
    cg.register("schedule", "halved", lambda epoch, lr=0.5: lr / 2)
    cg.register("metric", "highest", lambda scores, targets: scores.max())
    changes = ["graph=path", "partition=blocks", "schedule={name='halved', lr=0.2}", "metrics=['highest']"]
    experiment = parse(BASE, changes)
    assert parse(to_toml(experiment)) == experiment
    training = experiment.start()
    assert (training.graph.messages, training.settings.schedule(1.0, 0.0)) == (6, 0.1)
    assert training.evaluate().metrics["highest"].averaged == pytest.approx(
        float(training.averaged_model()(experiment.data.load().test.inputs).max().detach())
    )
    X = torch.randn(40, 3)
    result = cg.fit(
        nn.Linear(3, 2), (X, (X[:, 0] > 0).long()), test=(X, (X[:, 0] > 0).long()), graph=cg.ring(4),
        partition="blocks", metrics="highest", steps=1,
    )  # fmt: skip
    assert "highest" in result.records[-1].metrics


@dataclass(frozen=True)
class NoStep:
    """Lacks `step`."""

    needs = None

    def init(self, x, net):
        return x


@pytest.mark.parametrize(
    ("kind", "name", "thing", "sentence"),
    [
        ("modell", "x", net, "register takes one of algorithm, model, data"),
        ("model", "mlp", net, "registers 'mlp', but one of that name is built in. Choose another name."),
        ("model", "x", 3, "the model 'x' must be a function of .shape, classes. and options"),
        ("model", "", net, "needs a name to be registered under, such as 'my-model'; found ''"),
        ("model", "x", lambda shape, *sizes: None, r"so each needs a name; found \*sizes"),
        ("algorithm", "x", NoStep, "the algorithm 'x' must be a frozen dataclass with init, step, needs.*without step"),
        ("codec", "x", 3, "the codec 'x' must be a frozen dataclass with encode, decode"),
        ("metric", "my-metric", lambda s, t: 0, "column of tables: letters, digits and _; found 'my-metric'"),
        ("metric", "mine", 3, "a metric is a function of scores and targets"),
    ],
)
def test_what_cannot_be_registered_is_refused_with_a_sentence(kind, name, thing, sentence):
    with pytest.raises(ValueError, match=sentence):
        cg.register(kind, name, thing)


def test_a_module_may_replace_its_own_entry_and_no_other_may(tmp_path):
    cg.register("model", "net", net)
    cg.register("model", "net", lambda shape, classes: net(shape, classes, 1))  # as a notebook's cell run twice
    other = tmp_path / "other.py"
    other.write_text("import crossgrad\ncrossgrad.register('model', 'net', lambda shape: None)\n")
    with pytest.raises(
        ValueError,
        match=r"other.py cannot be used \(line 2\): a model needs a name of its own; other.py registers 'net', but",
    ):
        load_plugin(other)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nowhere_to_be_found", r"\(line 1\): ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("\n1 / 0", r"\(line 2\): ZeroDivisionError"),
        ("def", r"\(line 1\): SyntaxError"),
    ],
)
def test_a_file_that_fails_is_named_with_line_and_reason(tmp_path, text, sentence):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ValueError, match=f"the plug-in .*mine.py cannot be used {sentence}"):
        load_plugin(tmp_path / "mine.py")
    with pytest.raises(ValueError, match=r"--plugin must name a Python file, such as my_things.py; found"):
        load_plugin(tmp_path / "other.py")


def test_what_returns_something_else_is_refused():
    cg.register("data", "nothing", lambda: None)
    with pytest.raises(ValueError, match="a data set must return training and test data"):
        parse(BASE, ["data=nothing"]).data.load()
    cg.register("graph", "nothing", lambda agents: "ring")
    with pytest.raises(ValueError, match="graph must be a Graph"):
        parse(BASE, ["graph=nothing"]).build_graph()
    cg.register("task", "nothing", lambda labels: None)
    with pytest.raises(ValueError, match=r"a task must be a crossgrad.Task"):
        parse(BASE, ["task=nothing"]).start()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a package with entry points: a folder on the path with its metadata."""

    def install(name, version, points, module=""):
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(points)
        (tmp_path / f"{name.replace('-', '_')}_module.py").write_text(module)
        monkeypatch.syspath_prepend(str(tmp_path))
        packages._all_offers.cache_clear()

    return install


NETS = "from torch import nn\ndef net(shape, classes, width: int = 4):\n    return nn.Linear(64, classes)\n"


def test_a_package_is_imported_when_one_of_its_names_is_used_and_not_before(package):
    points = "[crossgrad.model]\nnet = my_nets_module:net\n[crossgrad.metric]\nbad = my_nets_module:missing\n"
    package("my-nets", "1.2", points, NETS)
    parse(BASE)
    assert "net" in KINDS["model"]
    assert "net" in KINDS["model"].names()
    assert "my_nets_module" not in sys.modules
    experiment = parse(BASE, ['model={name="net", width=7}'])
    assert experiment.model.width == 7
    assert [(one.plugin, one.version) for one in used()] == [("my-nets", "1.2")]
    with pytest.raises(ValueError, match=r"the metric 'bad' of my-nets 1.2 cannot be loaded: Attr"):
        METRICS["bad"]
    with pytest.raises(ValueError, match=r"Did you mean 'net'.* --plugin FILE.py, or from an installed package"):
        parse(BASE, ["model=nett"])


def test_two_packages_and_a_package_and_a_file_cannot_share_a_name(package):
    package("my-nets", "1.2", "[crossgrad.model]\nnet = my_nets_module:net\n", NETS)
    with pytest.raises(ValueError, match=r"but the installed package my-nets 1.2 offers one of that name"):
        cg.register("model", "net", net)
    package("her-nets", "0.1", "[crossgrad.model]\nnet = her_nets_module:net\n", NETS)
    with pytest.raises(ValueError, match=r"offers 'net', but so does (my|her)-nets"):
        parse(BASE, ["model=net"])


def test_a_package_cannot_replace_what_is_built_in(package):
    package("my-nets", "1.2", "[crossgrad.model]\nmlp = my_nets_module:net\n", NETS)
    assert parse(BASE, ["model=mlp"]).model == MLP()
    with pytest.raises(
        ValueError,
        match=r"^a model needs a name of its own; .* offers 'mlp', but crossgrad has one of that name itself",
    ):
        parse(BASE, ["model=other"])
