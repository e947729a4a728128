"""What is wrong in an experiment is said in a sentence."""

from pathlib import Path

import pytest

from crossgrad.experiments.config import ConfigError
from crossgrad.experiments.experiment import Experiment
from crossgrad.experiments.files import parse, to_toml
from crossgrad.models.zoo import MLP

BASE = Path(__file__).with_name("base.toml").read_text()


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
    ("graph.name=qqqqqq", "graph.name: there is no 'qqqqqq'. Valid are: balanced-bipartite, base-graph, "),
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
    ("model={hidden=[3]}", "model must have a name; found none. Valid are: cnn, cnn-released, linear, mlp, vgg11."),
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
    ("training={}", "training: the length of a run must be given either in steps or in epochs"),
    ("training.threads=0", "training: threads must be 1 to 1024; found 0."),
    ("training.threads=-1", "training: threads must be 1 to 1024; found -1."),
    ("training.threads=1000000", "training: threads must be 1 to 1024; found 1000000."),
    ("training.device=gpu", "training: device must be 'cpu', 'cuda' or 'cuda:0' and so on; found 'gpu'."),
    ("training.device=meta", "training: device must be 'cpu', 'cuda' or 'cuda:0' and so on; found 'meta'."),
    ("model={name='mlp', hidden=[0]}", "model: the mlp's hidden layers need at least one unit each; found [0]."),
    (
        "graph=edge-list",
        'graph: edge-list needs a value for path; found none. Write graph = { name = "edge-list", path = ... }.',
    ),
    ("faults.leave=1.5", "faults: leave must be a chance per step, from 0 to 1; found 1.5."),
    ("faults.drop=nan", "faults.drop must be finite; found nan."),
    ("faults.leav=0.1", "faults.leav: faults has no key 'leav'. Did you mean 'leave'? Valid are: absences, away, drop"),
    ("faults=none", "faults must be a table; found 'none'."),
    ("faults.away=0", "faults: away must be a whole number of at least 1; found 0."),
    ("faults.away=2.5", "faults.away must be a valid integer; found 2.5."),
    ("faults.absences=[[4, 0, 9]]", "faults: absences must be of agents 0 to 3; found agent 4."),
    ("faults.absences=[[1, 9]]", "faults: every one of absences must be an agent, its first step away"),
    ("faults.absences=[[1, 9, 4]]", "faults: every one of absences must be an agent, its first step away"),
    ("faults.absences=[1, 0, 9]", "faults.absences must be a valid list; found [1, 0, 9]."),
    ("faults.absences=[['one', 0, 9]]", "faults.absences must be a valid integer; found [['one', 0, 9]]."),
    ("faults.absences=[[1, 0, 9223372036854775808]]", "faults.absences must be at most 9223372036854775807; found"),
    ("gossip.rounds=0", "gossip: rounds must be a whole number of at least 1; found 0."),
    ("gossip.gamma=2", "gossip: gamma must be above 0 and at most 1, or more with a codec and chebyshev; found 2"),
    ("gossip.codec=zip", "gossip.codec.name: there is no 'zip'."),
    ("gossip={codec={name='quantised', bits=9}}", "gossip.codec: bits must be a whole number from 1 to 8; found 9."),
    ("gossip={rounds=2, bits=4}", "gossip.bits: gossip has no key 'bits'."),
    ("partition={name='dirichlet', alpha=0}", "partition: Dirichlet: alpha must be a number above 0"),
]


@pytest.mark.parametrize(("change", "sentence"), WRONG_VALUE, ids=[change for change, _ in WRONG_VALUE])
def test_a_value_out_of_range_is_refused(complaint, change, sentence):
    assert complaint(BASE, change).startswith(sentence)


@pytest.mark.parametrize("change", ["agents", "=3", " =3", ""])
def test_a_change_without_key_or_value_is_refused(complaint, change):
    assert complaint(BASE, change) == (f"a change must be key=value, such as algorithm.momentum=0.9; found {change!r}.")


def test_a_number_has_no_keys(complaint):
    assert complaint(BASE, "agents.momentum=3") == (
        "agents.momentum: agents must be a table to have 'momentum'; it is none. Change agents itself."
    )


@pytest.mark.parametrize("key", ["model", "graph", "algorithm", "partition"])
def test_a_missing_section_is_named_with_what_it_could_be(complaint, key):
    lines = [line for line in BASE.splitlines() if not line.startswith(key)]
    assert complaint("\n".join(lines)).startswith(f"{key} must be given; it is missing. Valid are: ")


def test_rounds_of_an_algorithm_that_does_more_than_averaging_are_refused(complaint):
    said = complaint(BASE, "algorithm=cga", "gossip.rounds=2")
    assert said.startswith("gossip: several rounds and compressed averages need an algorithm that only averages")


CANNOT_WORK = [
    (["algorithm=cga", "graph=exponential"], "CGA needs an undirected graph"),
    (["algorithm=edm", "graph=one-peer-exponential"], "EDM needs an undirected graph"),
    (["gossip.codec=quantised", "graph=random-matchings"], "needs the same graph"),
    (["gossip.codec=quantised", "faults.drop=0.1"], "wrong for good once a message is lost"),
    (
        ["algorithm=edm", "graph=random-matchings"],
        "EDM corrects each step by the one before, which needs the same graph",
    ),
    (["agents=1438"], "every agent needs at least one sample"),
    (["agents=100000000"], "every agent needs at least one sample"),
    (["agents=100000000", "graph=erdos-renyi"], "every agent needs at least one sample"),
    (["partition=shards", "partition.per_agent=1000000000000"], "Every shard needs a sample"),
    (["partition=label-quantity", "partition.labels_per_agent=11"], "11 are more than 10"),
    (["model.name=mlp", "model.hidden=[1000000000]"], "each with a model of 75,000,000,010 parameters, need "),
    (["model.name=mlp", "model.hidden=[1000000000000000000]"], "no machine can hold MLP"),
    (["model=vgg11", "agents=1400", "training.dtype=float64"], "1400 agents, each with a model of 9,224,458"),
]


@pytest.mark.parametrize(("changes", "sentence"), CANNOT_WORK, ids=[" ".join(c) for c, _ in CANNOT_WORK])
def test_what_cannot_work_is_refused_before_memory_is_taken(monkeypatch, changes, sentence):
    monkeypatch.setattr("crossgrad.experiments.expected.machine_memory", lambda: 32e9)  # on a machine like many
    with pytest.raises(ValueError, match=sentence) as error:
        parse(BASE, changes).start()
    assert "\n" not in str(error.value)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="with 0 GPUs"):
        parse(BASE, ["training.device=cuda"]).start()


def test_a_graph_file_of_the_wrong_size_is_refused(tmp_path):
    triangle = tmp_path / "my triangle.txt"
    triangle.write_text("0 1\n1 2\n2 0\n")
    changes = ["graph=edge-list", f"graph.path={triangle}"]
    with pytest.raises(ValueError, match=r"expected a graph of 4 agents; found one of 3. Set agents to 3"):
        parse(BASE, changes).start()
    assert parse(BASE, [*changes, "agents=3"]).start().graph.agents == 3


def test_what_has_no_name_cannot_be_written_down():
    class Own(MLP):
        pass

    experiment = parse(BASE)
    with pytest.raises(ConfigError, match=r"has no name to write it down by\. Valid are: cnn"):
        to_toml(Experiment(Own(), experiment.graph, experiment.algorithm, experiment.partition))


def test_a_metric_that_is_not_known_is_named_with_those_that_are(complaint):
    assert "there is no 'f2'. Valid are: accuracy, auroc" in complaint(BASE, 'metrics=["macro_f1", "f2"]')
