"""The benchmark: what it runs and refuses, its page, and the advice that rests on it."""

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from crossgrad._benchmark.advice import Question, advise, advised_experiment
from crossgrad._benchmark.combinations import BENCHMARK_SPLITS, BenchmarkPart, benchmark, combinations, methods
from crossgrad._benchmark.page import benchmark_page
from crossgrad._benchmark.rows import kept_rows
from crossgrad._cli.benchmark import forecast_lines
from crossgrad._runs import results
from crossgrad._runs.results import RunResult
from crossgrad._training.validate import check_graph
from crossgrad._tuning.standings import Interval, Standing
from crossgrad.algorithms import ALGORITHMS
from crossgrad.data import load
from crossgrad.experiments.files import parse

ROOT = Path(__file__).parents[2]


def row(algorithm="edm", graph="ring", agents="10", split="class", mean=90.0, megabytes=1.0, rounds=300, **more):
    labels = {"algorithm": algorithm, "graph": graph, "agents": agents, "split": split}
    three = [Interval(mean, 1.0)] * 3
    made = Standing(labels, 0.3, 0.9, 90.0, 8, False, *three, 0, ("1", "2", "3"), megabytes, rounds, 300.0, 9.0, "abc")
    return replace(made, **more)


def test_every_algorithm_is_run_in_every_place_that_its_needs_allow():
    entries, refused = combinations(BenchmarkPart(agents=(10,), splits=("class",)))
    run = {(entry.labels["algorithm"], entry.labels["graph"]) for entry in entries}
    assert set(ALGORITHMS) <= {algorithm for algorithm, _ in run}
    assert {("sgp", graph) for graph in ("ring", "base-3", "bipartite", "exponential")} <= run
    assert ("edm", "base-3") not in run
    assert [graph for algorithm, graph in sorted(run) if algorithm == "relaysgd"] == ["tree"]
    assert {graph for algorithm, graph in run if graph == "tree"} == {"tree"}
    reasons = {(one.labels["algorithm"], one.labels["graph"]): one.reason for one in refused}
    assert "needs the same graph in every step" in reasons["edm", "base-3"]
    assert "needs an undirected graph" in reasons["cga", "exponential"]
    assert not run & reasons.keys()


def test_everything_in_the_benchmark_has_the_same_budget_and_a_simulated_time():
    tuning, _ = benchmark(BenchmarkPart(agents=(10,), graphs=("ring",), splits=("class",)), trials=8)
    assert len(tuning.entries) == len(methods()) - 1  # RelaySGD needs a tree
    for entry, cells in zip(tuning.entries, tuning.next_cells({}), strict=True):
        assert len(cells) in (3, 6), entry.labels
        experiment = cells[0].experiment
        assert (experiment.links.bandwidth, experiment.links.latency) == ("100 Mbit/s", "20 ms")
        assert experiment.training.validation == 0.2


@pytest.mark.parametrize("split", BENCHMARK_SPLITS)
def test_every_agent_of_every_split_has_data_to_train_on_and_to_validate_by(split):
    data = load("digits")
    tuning, _ = benchmark(BenchmarkPart(("dpsgd",), ("ring",), (40,), (split,)), trials=8)
    for seed in (0, 1, 2, 3):
        agents = replace(tuning.next_cells({})[0][0].experiment, seed=seed).deal(data)
        assert all(len(part) for part in (*agents.train, *agents.validation))


def test_a_part_that_does_not_exist_is_refused(crossgrad):
    for option, value in (("--algorithm", "emd"), ("--graph", "torus"), ("--split", "dirichlett"), ("--agents", "7")):
        answer = crossgrad("benchmark", option, value, "--dry-run")
        assert answer.status == 2
        assert answer.err.startswith(f"crossgrad: {option} must be ")
        assert answer.err.count("\n") == 1


def test_a_dry_run_counts_runs_and_starts_none(crossgrad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = crossgrad("benchmark", "-n", 10, "--graph", "ring", "--split", "class", "--algorithm", "edm", "--dry-run")
    assert answer.status == 0
    assert "1 combinations, each with 8 trials and 3 seeds: 11 runs" in " ".join(answer.out.split())
    assert list(tmp_path.iterdir()) == []


def test_the_hours_of_one_part_are_not_less_because_another_part_has_been_run(monkeypatch, tmp_path):
    def seen(part):
        tuning, _ = benchmark(part, 8)
        return float(re.search(r"About (.*) hours", forecast_lines(tuning, tmp_path, 1)[1])[1])

    edm, cga = (BenchmarkPart((name,), ("ring",), (10,), ("class",)) for name in ("edm", "cga"))
    before = seen(cga)
    tuning, _ = benchmark(edm, 8)
    labels = tuning.next_cells({})[0][0].labels
    done = [RunResult(f"{n}", labels, {}, (), {"ended": "finished"}, {}) for n in range(11)]
    (tmp_path / "cells").mkdir()
    monkeypatch.setattr(results, "read_results", lambda folder, damaged: done)
    assert seen(cga) == before > 0
    assert seen(edm) == 0


def test_the_page_has_every_row_and_asks_for_nothing():
    page = benchmark_page([row(), row("cga</script>")])
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert [one["labels"]["algorithm"] for one in json.loads(data)] == ["edm", "cga</script>"]
    assert "default-src 'none'" in page
    assert "http:" not in page
    assert "https:" not in page


def test_of_equally_good_methods_the_cheapest_is_advised():
    rows = [row("cga", mean=95.0, megabytes=9.0), row("edm", mean=94.5, megabytes=4.0), row("dpsgd", mean=70.0)]
    found = advise(Question(10, "class", "ring"), rows)
    assert found.row.labels["algorithm"] == "edm"
    assert [one.labels["algorithm"] for one in found.rests_on] == ["cga", "edm", "dpsgd"]


def test_the_row_that_is_advised_is_shown_even_where_many_are_better():
    better = [row("cga", mean=95.0 - number / 100, megabytes=9.0) for number in range(7)]
    found = advise(Question(10, "class", "ring"), [row("edm", mean=94.5, megabytes=4.0), *better])
    assert found.rests_on == (*better[:5], found.row)
    assert found.row.labels["algorithm"] == "edm"


def test_slow_links_ask_for_few_bytes_and_long_ones_for_few_rounds():
    rows = [row("edm", megabytes=5.0, rounds=300), row("edm, 4 bits, 2 rounds", megabytes=1.0, rounds=600)]
    slow, far = Question(10, "class", bandwidth="1 Mbit/s"), Question(10, "class", latency="100 ms")
    assert advise(slow, rows).row.rounds == 600
    assert advise(far, rows).row.rounds == 300
    both = Question(10, "class", bandwidth="1 Mbit/s", latency="100 ms")
    assert both.communication_seconds(rows[0]) == pytest.approx(2 * 300 * 0.1 + 5e6 * 8 / 1e6)


def test_the_nearest_number_of_agents_counts_and_rows_that_diverged_do_not():
    rows = [row(agents="10"), row("cga", agents="40"), row("dpsgd", agents="40", mean=99.0, diverged=1)]
    assert advise(Question(12, "class"), rows).row.labels["agents"] == "10"
    assert advise(Question(60, "class"), rows).row.labels["algorithm"] == "cga"


@pytest.mark.parametrize("question", [Question(1000, "class"), Question(10, "iid"), Question(10, "class", "bipartite")])
def test_where_no_row_is_near_it_says_so(question):
    with pytest.raises(ValueError, match=r"none is near .* it has: ring, 10 agents, class"):
        advise(question, [row()])


def test_the_advised_experiment_has_the_rows_settings_and_can_be_run():
    question = Question(12, "class", bandwidth="5 Mbit/s")
    made = advised_experiment(question, row("edm, 4 bits, 2 rounds"))
    assert (made.agents, made.schedule.lr, made.algorithm.momentum, made.gossip.rounds) == (12, 0.3, 0.9, 2)
    assert made.gossip.codec.bits == 4
    assert made.links.bandwidth == "5 Mbit/s"
    check_graph(made.method, made.build_graph(), 12)


def test_the_command_prints_its_rows_and_writes_the_experiment(crossgrad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("crossgrad._benchmark.rows.kept_rows", lambda: [row(), row("cga", mean=80.0)])
    answer = crossgrad("advise", "-n", 10, "--split", "class", "--graph", "ring")
    assert (answer.status, answer.err) == (0, "")
    said = " ".join(answer.out.split())
    assert "Begin with edm on ring, exact messages, 1 gossip round a step, step size 0.3, momentum 0.9." in said
    assert "cga" in said
    assert parse(Path("advised.toml").read_text()).schedule.lr == 0.3
    again = crossgrad("advise", "-n", 10, "--split", "class")
    assert again.status == 2
    assert "is not overwritten" in again.err


def test_a_folder_for_the_advice_that_is_not_there_is_a_sentence_before_anything_is_printed(crossgrad, tmp_path):
    answer = crossgrad("advise", "-n", 10, "--split", "class", "--out", tmp_path / "none" / "x.toml")
    assert (answer.status, answer.out) == (2, "")
    assert "--out must name a file in a folder that exists; " in answer.err


def test_the_pages_and_the_packages_rows_are_those_of_the_kept_runs():
    spec = importlib.util.spec_from_file_location("kept_benchmark", ROOT / "results" / "benchmark.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
    assert module.filled(text) == text
    assert text.count("<!-- end -->") == 3
    assert kept_rows() == module.rows()
    assert (ROOT / "docs" / "benchmark.html").read_text(encoding="utf-8") == benchmark_page(module.rows())
