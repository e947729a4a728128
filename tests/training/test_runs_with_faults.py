"""Runs in which agents leave, are late, and messages get lost."""

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad.algorithms import ALGORITHMS, Needs, SwarmSGD
from crossgrad.graphs.faults import Faults

STORM = Faults(leave=0.1, away=3, straggle=0.2, drop=0.3)

BEARING = [name for name, make in ALGORITHMS.items() if Needs.RELIABLE not in make().needs]  # others refuse faults


def batch_norm():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


def fitted(blobs, algorithm, faults=None, graph=None, **options):
    options = {"steps": 12, "lr": 0.05, "batch_size": 8, "evaluate_every": 6} | options
    torch.manual_seed(0)
    model = options.pop("model", nn.Linear(4, 3))
    return cg.fit(model, blobs(), graph=graph or cg.ring(5), algorithm=algorithm, faults=faults, **options)


def everything(training):
    """Every number of a run's state."""
    return [*training.state, training.buffers.floats_NF, training.buffers.integers_NI, training.oracle.drawn]


@pytest.mark.parametrize("name", BEARING)
def test_every_algorithm_runs_with_faults_and_repeats_itself(blobs, name):
    one, two, other = (fitted(blobs, ALGORITHMS[name](), STORM, seed=seed) for seed in (0, 0, 1))
    assert one.status == "ok"
    assert all(map(torch.equal, everything(one.training), everything(two.training)))
    assert [r.as_json() | {"seconds": 0} for r in one.records] == [r.as_json() | {"seconds": 0} for r in two.records]
    assert not torch.equal(one.training.state.x, other.training.state.x)


@pytest.mark.parametrize("algorithm", [cg.comp_cga(0.9), cg.SGP(0.9), cg.EDM(0.9), SwarmSGD(True, 2)], ids=repr)
def test_those_away_draw_no_batch_and_keep_their_buffers(blobs, algorithm):
    graph = cg.exponential(5) if isinstance(algorithm, cg.SGP) else cg.ring(5)
    faults = Faults(absences=((1, 0, 6), (3, 4, 12)))
    drawn = fitted(blobs, algorithm, faults, graph, model=batch_norm()).training.oracle.drawn.tolist()
    each = getattr(algorithm, "local_steps", 1)
    assert drawn == [12 * each, 6 * each, 12 * each, 4 * each, 12 * each]
    shorter = fitted(blobs, algorithm, faults, graph, model=batch_norm(), steps=4).training
    longer = fitted(blobs, algorithm, faults, graph, model=batch_norm(), steps=9).training
    assert all(torch.equal(a[3], b[3]) for a, b in zip(everything(shorter), everything(longer), strict=True))
    assert not torch.equal(shorter.buffers.floats_NF[0], longer.buffers.floats_NF[0])


@pytest.mark.parametrize("name", BEARING)
def test_no_agent_sends_to_or_receives_from_an_absent_one(blobs, name):
    traffic = fitted(blobs, ALGORITHMS[name](), Faults(absences=((1, 0, 100),)), steps=30).training.traffic
    sent = sum(traffic.by_edge.values())
    touches = (traffic.receiver == 1) | (traffic.sender == 1)
    assert (sent[touches] == 0).all()
    assert (sent[~touches] > 0).all()


def test_bytes_are_those_of_the_links_that_worked(blobs):
    result = fitted(blobs, cg.DPSGD(), STORM, steps=12, evaluate_every=4)
    links = np.mean([record.diagnostics["links"] for record in result.records[1:]])
    everything_sent = fitted(blobs, cg.DPSGD(), steps=12).records[-1].bytes_sent
    assert result.records[-1].bytes_sent == pytest.approx(links * everything_sent)


def test_without_faults_a_run_has_the_same_bits_and_records_as_with_none_named(blobs):
    for faults in (Faults(), Faults(away=3), Faults(absences=((2, 50, 60),))):
        plain, named = fitted(blobs, cg.comp_cga(0.9)), fitted(blobs, cg.comp_cga(0.9), faults)
        assert all(map(torch.equal, everything(plain.training), everything(named.training)))
        told = [record.diagnostics for record in named.records]
        if faults.any:
            told = [{k: v for k, v in each.items() if k not in ("present", "links")} for each in told]
        assert told == [record.diagnostics for record in plain.records]


def test_records_tell_who_was_there_and_what_worked_since_the_last_one(blobs):
    faults = Faults(absences=((0, 0, 4), (2, 3, 6)))
    records = fitted(blobs, cg.CGA(0.9), faults, steps=7, evaluate_every=3).records
    assert [record.step for record in records] == [0, 3, 6, 7]
    assert [record.diagnostics["present"] for record in records] == pytest.approx([1, 12 / 15, 11 / 15, 1])
    # On a ring of five, one who is away takes two of five links along; 0 and 2 have none in common.
    assert [record.diagnostics["links"] for record in records] == pytest.approx([1, 9 / 15, 7 / 15, 1])
    assert "active" in records[-1].diagnostics


def test_one_agent_may_be_away_too(blobs):
    for algorithm in (cg.CGA(0.9), cg.SGP(), SwarmSGD(), cg.EDM()):
        result = fitted(blobs, algorithm, Faults(absences=((0, 0, 3),), drop=0.5, straggle=0.5), cg.ring(1), steps=5)
        assert result.training.oracle.drawn.tolist() == [2]
        assert result.records[-1].diagnostics["links"] == 1.0


WRONG = {
    "leave must be a chance per step, from 0 to 1; found 1.5.": {"leave": 1.5},
    "straggle must be a chance per step, from 0 to 1; found -0.1.": {"straggle": -0.1},
    "drop must be a chance per step, from 0 to 1; found nan.": {"drop": float("nan")},
    "away must be a whole number of at least 1; found 0.": {"away": 0},
    "found [3, 10].": {"absences": ((3, 10),)},
    "found [3, 10, 10].": {"absences": ((3, 10, 10),)},
    "found [3, -1, 10].": {"absences": ((3, -1, 10),)},
    "found [-1, 0, 10].": {"absences": ((-1, 0, 10),)},
    "found [1.5, 0, 10].": {"absences": ((1.5, 0, 10),)},
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_fault_out_of_range_is_refused(sentence):
    with pytest.raises(ValueError, match=re.escape(sentence) + "$"):
        Faults(**WRONG[sentence])


def test_the_absence_of_somebody_who_does_not_exist_is_refused(blobs):
    with pytest.raises(ValueError, match=r"absences must be of agents 0 to 4; found agent 5\.$"):
        fitted(blobs, cg.DPSGD(), Faults(absences=((5, 0, 3),)))


def test_gossip_on_a_directed_graph_with_faults_is_refused_as_its_averages_would_be_none(blobs):
    with pytest.raises(ValueError, match="DPSGD needs weights whose rows and columns each sum to 1; a directed"):
        fitted(blobs, cg.DPSGD(), STORM, cg.exponential(5))
    assert fitted(blobs, cg.DPSGD(), graph=cg.exponential(5)).status == "ok"
    assert fitted(blobs, cg.SGP(0.9), STORM, cg.exponential(5)).status == "ok"


def test_the_table_of_the_documentation_is_that_of_its_records():
    root = Path(__file__).parents[2]
    lines = [json.loads(line) for line in (root / "docs" / "faults" / "records.jsonl").read_text().splitlines()]
    table = runpy.run_path(str(root / "examples" / "faults.py"))["table"](lines)
    assert len(lines) == 9 * 4 * 3
    assert table == (root / "docs" / "faults" / "table.md").read_text()
    assert table in (root / "docs" / "faults.md").read_text()
