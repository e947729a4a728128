"""Experiments as files: what is written is read back, and what is wrong is said in one sentence."""

import math
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgrad.algorithms import ALGORITHMS, CGA, DPMSGD, Mean, Projection, comp_cga, released_cga, released_comp_cga
from crossgrad.cli.run_commands import SHORTEST
from crossgrad.codec import Exact, ScaledSign
from crossgrad.config import LARGEST_FILE, ConfigError
from crossgrad.data import PARTITIONS
from crossgrad.experiment import DataChoice, Experiment, from_table, parse, read, to_toml
from crossgrad.graphs import GRAPHS
from crossgrad.models import MLP, MODELS
from crossgrad.schedule import SCHEDULES, Cosine, Step, WarmUp

BASE = """
agents = 4
partition = "iid"
model = "linear"
graph = "ring"
algorithm = "dpsgd"
training = { steps = 2, threads = 1 }
"""
NEEDED = {"edge-list": {"path": "some graph.txt"}, "weight-matrix": {"path": "weights.npy"}}


def there_and_back(experiment: Experiment) -> Experiment:
    return parse(to_toml(experiment))


@pytest.fixture
def complaint(tmp_path):
    """The sentence about a file with this content and these changes."""

    def find(content: str | bytes = BASE, *changes: str) -> str:
        path = tmp_path / "experiment.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ConfigError) as error:
            read(path, list(changes))
        message = str(error.value)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
        assert message.endswith(".")
        return message.removeprefix(f"{path}: ")

    return find


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
        ["training={ epochs = 1e-3, batch_size = 7, dtype = 'float64', evaluate_every = 3 }"],
        ["name=Größe Nr. 1", "seed=123456789012345678"],
        ["faults.leave=0.01", "faults.drop=0.1", "faults.away=7", "faults.straggle=1"],
        ["faults={ absences = [[3, 100, 150], [0, 0, 1]] }"],
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
    assert parse(SHORTEST).algorithm == CGA()


UNKNOWN = [
    ("agent=3", "agent: an experiment has no key 'agent'. Did you mean 'agents'?"),
    ("training.batchsize=3", "training.batchsize: training has no key 'batchsize'. Did you mean 'batch_size'?"),
    ("data.rot=x", "data.rot: data has no key 'rot'. Did you mean 'root'?"),
    ("algorithm=CAG", "algorithm.name: there is no 'CAG'. Did you mean 'cga'?"),
    ("algorithm=DPMSGD", "algorithm.name: there is no 'DPMSGD'. Did you mean 'dpmsgd'?"),
    ("algorithm.momentum=0.9", "algorithm.momentum: dpsgd has no key 'momentum'. It takes no options."),
    ("algorithm={name='cga', momentun=0.9}", "algorithm.momentun: cga has no key 'momentun'. Did you mean 'momentum'?"),
    ("algorithm={name='cga', codec='sign'}", "algorithm.codec.name: there is no 'sign'. Did you mean 'scaled-sign'?"),
    (
        "algorithm={name='cga', aggregate={name='projection', magin=1}}",
        "algorithm.aggregate.magin: projection has no key 'magin'. Did you mean 'margin'?",
    ),
    ("graph=rign", "graph.name: there is no 'rign'. Did you mean 'ring'?"),
    ("model=mpl", "model.name: there is no 'mpl'. Did you mean 'mlp'?"),
    ("partition=diriclet", "partition.name: there is no 'diriclet'. Did you mean 'dirichlet'?"),
    ("schedule=cosin", "schedule.name: there is no 'cosin'. Did you mean 'cosine'?"),
    ("schedule={name='warm-up', then='exp'}", "schedule.then.name: there is no 'exp'. Did you mean 'exponential'?"),
    ("data=minst", "data.name: there is no 'minst'. Did you mean 'mnist'?"),
    ("graph.name=qqqqqq", "graph.name: there is no 'qqqqqq'. Valid are: balanced-bipartite, bipartite, chain,"),
]


@pytest.mark.parametrize(("change", "sentence"), UNKNOWN, ids=[change for change, _ in UNKNOWN])
def test_what_does_not_exist_is_named_with_what_is_nearest(complaint, change, sentence):
    message = complaint(BASE, change)
    assert message.startswith(sentence)
    assert "Valid are: " in message or "It takes no options." in message


WRONG_TYPE = [
    ("agents=ten", "agents must be a valid integer; found 'ten'."),
    ("agents=1.5", "agents must be a valid integer; found 1.5."),
    ("agents=1.0", "agents must be a valid integer; found 1.0."),
    ("agents=true", "agents must be a valid integer; found True."),
    ('seed="1"', "seed must be a valid integer; found '1'."),
    ("name=3", "name must be a valid string; found 3."),
    ("training.steps=two", "training.steps must be a valid integer; found 'two'."),
    ("training.threads=1.5", "training.threads must be a valid integer; found 1.5."),
    ("training.dtype=float16", "training.dtype must be 'float32' or 'float64'; found 'float16'."),
    ("training=long", "training must be a table; found 'long'."),
    ("data=3", "data must be a table; found 3."),
    ("model=3", "model must be a name or a table with a name; found 3."),
    ("model={hidden=[3]}", "model needs a name. Valid are: cnn, cnn-released, linear, mlp, vgg11."),
    ("model={name='mlp', hidden=3}", "model.hidden must be a valid list; found 3."),
    ("model={name='mlp', hidden=[1.5]}", "model.hidden must be a valid integer; found [1.5]."),
    ("algorithm={name='dpmsgd', momentum='0.9'}", "algorithm.momentum must be a valid number; found '0.9'."),
    ("algorithm={name='dpmsgd', momentum=true}", "algorithm.momentum must be a valid number; found True."),
    ("algorithm={name='dpmsgd', nesterov=1}", "algorithm.nesterov must be a valid boolean; found 1."),
    ("schedule={name='step', at=['a']}", "schedule.at must be a valid number; found ['a']."),
]


@pytest.mark.parametrize(("change", "sentence"), WRONG_TYPE, ids=[change for change, _ in WRONG_TYPE])
def test_a_value_of_the_wrong_type_is_refused(complaint, change, sentence):
    assert complaint(BASE, change) == sentence


WRONG_VALUE = [
    ("agents=0", "agents must be at least 1; found 0."),
    ("agents=-1", "agents must be at least 1; found -1."),
    ("seed=-1", "seed must be at least 0; found -1."),
    ("seed=9223372036854775808", "seed must be at most 9223372036854775807; found a number of 64 bits."),
    ("algorithm={name='dpmsgd', momentum=1.5}", "algorithm: momentum must be at least 0 and below 1; found 1.5."),
    ("algorithm={name='dpmsgd', momentum=nan}", "algorithm.momentum must be finite; found nan."),
    ("algorithm={name='edm', lazy=-inf}", "algorithm.lazy must be finite; found -inf."),
    ("schedule={name='step', at=[1, nan]}", "schedule.at must be finite; found [1, nan]."),
    ("schedule={name='constant', lr=0}", "schedule: the step size lr must be above 0 and at most 1000; found 0.0."),
    ("schedule={name='constant', lr=1e9}", "schedule: the step size lr must be above 0 and at most 1000; found"),
    ("schedule={name='warm-up', then={name='constant', lr=-1}}", "schedule.then: the step size lr must be above 0"),
    ("training.batch_size=0", "training: batch_size must be at least 1; found 0."),
    ("training.steps=0", "training: steps must be at least 1; found 0."),
    ("training.evaluate_every=0", "training: evaluate_every must be at least 1; found 0."),
    ("training={epochs=0}", "training: epochs must be above 0"),
    ("training={epochs=1e308}", "training: epochs must be at most 1e+09; found 1e+308."),
    ("training.epochs=1", "training: say how long to train, either in steps or in epochs"),
    ("training={}", "training: say how long to train, either in steps or in epochs"),
    ("training.threads=0", "training: threads must be 1 to 1024; found 0."),
    ("training.threads=-1", "training: threads must be 1 to 1024; found -1."),
    ("training.threads=1000000", "training: threads must be 1 to 1024; found 1000000."),
    ("training.device=gpu", "training: device must be 'cpu', 'cuda' or 'cuda:0' and so on; found 'gpu'."),
    ("training.device=meta", "training: device must be 'cpu', 'cuda' or 'cuda:0' and so on; found 'meta'."),
    ("model={name='mlp', hidden=[0]}", "model: the mlp's hidden layers need at least one unit each; found [0]."),
    ("graph=edge-list", "graph: edge-list needs path."),
    ("faults.leave=1.5", "faults: leave is a chance per step, from 0 to 1; found 1.5."),
    ("faults.drop=nan", "faults.drop must be finite; found nan."),
    ("faults.leav=0.1", "faults.leav: faults has no key 'leav'. Did you mean 'leave'? Valid are: absences, away, drop"),
    ("faults=none", "faults must be a table; found 'none'."),
    ("faults.away=0", "faults: away should be a whole number of at least 1, found 0."),
    ("faults.away=2.5", "faults.away must be a valid integer; found 2.5."),
    ("faults.absences=[[4, 0, 9]]", "faults: absences must be of agents 0 to 3; found agent 4."),
    ("faults.absences=[[1, 9]]", "faults: every one of absences must be an agent, its first step away"),
    ("faults.absences=[[1, 9, 4]]", "faults: every one of absences must be an agent, its first step away"),
    ("faults.absences=[1, 0, 9]", "faults.absences must be a valid list; found [1, 0, 9]."),
    ("faults.absences=[['one', 0, 9]]", "faults.absences must be a valid integer; found [['one', 0, 9]]."),
    ("faults.absences=[[1, 0, 9223372036854775808]]", "faults.absences must be at most 9223372036854775807; found"),
    ("partition={name='dirichlet', alpha=0}", "partition: Dirichlet: alpha should be a number above 0"),
]


@pytest.mark.parametrize(("change", "sentence"), WRONG_VALUE, ids=[change for change, _ in WRONG_VALUE])
def test_a_value_out_of_range_is_refused(complaint, change, sentence):
    assert complaint(BASE, change).startswith(sentence)


@pytest.mark.parametrize("change", ["agents", "=3", " =3", ""])
def test_a_change_without_key_or_value_is_refused(complaint, change):
    assert complaint(BASE, change) == (
        f"a change is written key=value, such as algorithm.momentum=0.9; found {change!r}."
    )


def test_a_number_has_no_keys(complaint):
    assert complaint(BASE, "agents.momentum=3") == "agents.momentum: agents is no table, so it has no 'momentum'."


@pytest.mark.parametrize("key", ["model", "graph", "algorithm", "partition"])
def test_a_missing_section_is_named_with_what_it_could_be(complaint, key):
    lines = [line for line in BASE.splitlines() if not line.startswith(key)]
    assert complaint("\n".join(lines)).startswith(f"{key} is missing. Valid are: ")


@pytest.mark.parametrize("content", ["", "\n\n", "# only a comment\n", b"\xef\xbb\xbf"])
def test_an_empty_file_points_to_an_example(complaint, content):
    assert complaint(content) == "the experiment is empty. `crossgrad run --help` shows a short one."


@pytest.mark.parametrize("content", [b"\xff\xfe\x00\x01", b"\x89PNG\r\n\x1a\n\xf0", bytes(range(256))])
def test_a_binary_file_is_no_experiment(complaint, content):
    assert complaint(content) == "expected a TOML text file; found bytes that are no text."


@pytest.mark.parametrize(
    ("content", "line"),
    [("agents = 3\nseed = = 4\n", 2), ("agents = 3\nagents = 4\n", 2), ("a = 1\nb = 2\n[model\n", 3), ("agents: 3", 1)],
)
def test_invalid_toml_is_refused_with_its_line(complaint, content, line):
    message = complaint(content)
    assert message.startswith("this is not valid TOML: ")
    assert f"line {line}" in message


def test_a_number_of_thousands_of_digits_is_refused(complaint):
    assert complaint(f"{BASE}seed = {'1' * 5000}\n").startswith("this is not valid TOML: ")
    assert complaint(BASE, "seed=" + "1" * 500).startswith("seed must be at most")


def test_tables_nested_without_end_are_refused(complaint):
    deeper = [f"schedule{'.then' * depth}.name=warm-up" for depth in range(600)]
    for message in (complaint(f"name = {'[' * 50_000}"), complaint(BASE, *deeper)):
        assert message == "its tables or lists are nested too deeply."


def test_a_file_that_is_far_too_large_is_refused(complaint):
    assert complaint(b"#" * (LARGEST_FILE + 1)).startswith("an experiment is a short TOML file")


def test_a_device_that_never_ends_is_refused():
    with pytest.raises(ConfigError, match="an experiment is a short TOML file"):
        read("/dev/zero")


def test_a_pipe_that_nobody_fills_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"expected a TOML file; found a pipe\.$"):
        read(tmp_path / "pipe")


def test_a_value_of_any_length_is_refused_in_a_short_sentence(complaint):
    long = "x" * 100_000
    for content, *changes in (
        [f'{BASE}schedule = "{long}"'],
        [f"{BASE}{long} = 1"],
        [f"{BASE}seed = [{'1,' * 100_000}]"],
        [BASE, f"model={{name='mlp', hidden=[{'0,' * 10_000}]}}"],
        [BASE, f"graph.{long}=1"],
        [BASE, long],
    ):
        assert len(complaint(content, *changes)) < 1000


def test_a_hexadecimal_number_of_thousands_of_digits_is_refused(complaint):
    number = "0x" + "f" * 5000
    assert "must be at most" in complaint(f"{BASE}seed = {number}")
    assert "a value cannot be used: Exceeds the limit" in complaint(f"{BASE}data = [[{number}]]")


@pytest.mark.parametrize("odd", ["\\n", "\\u001b[31m", "\\u0000", "\\u2028"])
def test_odd_characters_are_shown_as_codes(complaint, odd):
    for content in (f'{BASE}"a{odd}b" = 1', f'{BASE}schedule = "a{odd}b"'):
        assert complaint(content).isprintable()


def test_a_folder_or_a_missing_file_is_no_experiment(tmp_path):
    with pytest.raises(ConfigError, match=r"expected a TOML file; found a folder\.$"):
        read(tmp_path)
    with pytest.raises(ConfigError, match=r"there is no such file\. Ready ones lie in examples/\.$"):
        read(tmp_path / "nothing.toml")
    with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
        read("/dev/null/experiment.toml")


CANNOT_WORK = [
    (["algorithm=cga", "graph=exponential"], "CGA needs an undirected graph"),
    (["algorithm=edm", "graph=one-peer-exponential"], "EDM needs an undirected graph"),
    (["algorithm=edm", "graph=random-matchings"], "EDM corrects by its last step, which needs the same graph"),
    (["agents=1438"], "Every agent needs at least one sample"),
    (["agents=100000000"], "Every agent needs at least one sample"),
    (["agents=100000000", "graph=erdos-renyi"], "Every agent needs at least one sample"),
    (["partition=shards", "partition.per_agent=1000000000000"], "Every shard needs a sample"),
    (["partition=label-quantity", "partition.labels_per_agent=11"], "11 are more than 10"),
    (["model.name=mlp", "model.hidden=[1000000000]"], "each with a model of 75,000,000,010 parameters, need "),
    (["model.name=mlp", "model.hidden=[1000000000000000000]"], "no machine can hold MLP"),
    (["model=vgg11", "agents=1400", "training.dtype=float64"], "1400 agents, each with a model of 9,224,458"),
]


@pytest.mark.parametrize(("changes", "sentence"), CANNOT_WORK, ids=[" ".join(c) for c, _ in CANNOT_WORK])
def test_what_cannot_work_is_refused_before_memory_is_taken(monkeypatch, changes, sentence):
    monkeypatch.setattr("crossgrad.experiment.machine_memory", lambda: 32e9)  # on a machine like many
    with pytest.raises(ValueError, match=sentence) as error:
        parse(BASE, changes).start()
    assert "\n" not in str(error.value)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="this PyTorch sees 0 GPUs"):
        parse(BASE, ["training.device=cuda"]).start()


def test_a_graph_file_of_the_wrong_size_is_refused(tmp_path):
    triangle = tmp_path / "my triangle.txt"
    triangle.write_text("0 1\n1 2\n2 0\n")
    changes = ["graph=edge-list", f"graph.path={triangle}"]
    with pytest.raises(ValueError, match="expected a graph of 4 agents, found one of 3; set agents to 3"):
        parse(BASE, changes).start()
    assert parse(BASE, [*changes, "agents=3"]).start().graph.agents == 3


def test_what_has_no_name_cannot_be_written_down():
    class Own(MLP):
        pass

    experiment = parse(BASE)
    with pytest.raises(ConfigError, match=r"has no name to write it down by\. Valid are: cnn"):
        to_toml(Experiment(Own(), experiment.graph, experiment.algorithm, experiment.partition))


LEAVES = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=5), st.dates(),
    st.sampled_from([*ALGORITHMS, *GRAPHS, *MODELS, *PARTITIONS, *SCHEDULES, "exact", "projection", 10**30, math.nan]),
)  # fmt: skip
KEYS = st.sampled_from(
    ["name", "seed", "agents", "model", "graph", "algorithm", "partition", "schedule", "training", "data", "momentum",
     "hidden", "then", "codec", "aggregate", "lr", "at", "steps", "epochs", "path", "probability", "threads", "device",
     "dtype", "margin", "root", "faults", "leave", "absences", "nonsense"]
)  # fmt: skip
TABLES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, TABLES, max_size=5))
def test_any_table_is_an_experiment_that_can_be_written_down_or_a_sentence(table):
    whole = {"model": "mlp", "graph": "ring", "algorithm": "cga", "partition": "iid", "training": {"steps": 1}}
    try:
        experiment = from_table(whole | table)
    except ConfigError:
        return
    assert there_and_back(experiment) == experiment


@settings(max_examples=100, deadline=None)
@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_is_refused_in_a_sentence(text, changes):
    with pytest.raises(ConfigError):
        parse(text, changes)
