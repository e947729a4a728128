"""Runs beside the paper's numbers."""

import io
import json

import pytest
from rich.console import Console

from crossgrad._cli.tables import accuracy_table
from crossgrad._paper.beside import BESIDE_COLUMNS, as_json, rows, rows_as_markdown

TABLE = "cifar10-cnn-noniid"


def test_a_row_is_the_mean_over_seeds_of_the_last_records(result, record, labels):
    early = record(step=1, accuracy=0.1, agents=(0.1, 0.1), epoch=0.2)
    runs = [
        result(labels(seed=0), [early, record(accuracy=0.6, agents=(0.2, 0.4))]),
        result(labels(seed=1), [early, record(accuracy=0.7, agents=(0.5, 0.7))]),
    ]
    (row,) = rows(runs, TABLE)
    assert (row.method, row.variant, row.graph, row.agents, row.seeds) == ("CGA", "paper", "ring", 5, 2)
    assert row.averaged == pytest.approx(65.0)
    assert row.mean_agent == pytest.approx((30 + 60) / 2)
    assert row.worst_agent == pytest.approx((20 + 50) / 2)
    assert row.spread == pytest.approx(5.0)
    assert row.paper.accuracy == 66.5
    assert row.difference == pytest.approx(65.0 - 66.5)
    assert (row.epochs, row.status) == (2.0, "finished 2 of 2")


def test_rows_stand_in_the_papers_order_and_others_after_them(result, labels):
    places = [("EDM", "ring", 5, ""), ("CGA", "star", 5, "paper"), ("CGA", "ring", 40, "paper"),
              ("CGA", "ring", 5, "paper"), ("CGA", "fully-connected", 10, "released"), ("CGA", "bipartite", 5, "paper"),
              ("DPMSGD", "ring", 5, "paper")]  # fmt: skip
    made = rows([result(labels(m, g, n, variant=v)) for m, g, n, v in places], TABLE)
    assert [(r.method, r.graph, r.agents, r.variant) for r in made] == [
        ("DPMSGD", "ring", 5, "paper"), ("CGA", "ring", 5, "paper"), ("CGA", "ring", 40, "paper"),
        ("CGA", "bipartite", 5, "paper"), ("CGA", "star", 5, "paper"), ("CGA", "fully-connected", 10, "released"),
        ("EDM", "ring", 5, ""),
    ]  # fmt: skip
    assert [r.paper is None for r in made] == [False, False, False, False, True, False, True]


def test_where_the_paper_diverges_or_has_no_number_there_is_no_difference(result, labels):
    diverges, missing = rows([result(labels("DPMSGD")), result(labels("DPSGD", variant=""))], TABLE)[::-1]
    assert str(diverges.paper) == "diverges"
    assert missing.paper is None
    assert (diverges.difference, missing.difference) == (None, None)
    assert diverges.averaged == missing.averaged == 50.0


def test_no_difference_is_taken_between_digits_and_the_papers_data(result, labels):
    made = rows([result(labels(), data="digits")], TABLE)
    assert made[0].paper.accuracy == 66.5
    assert made[0].difference is None
    assert "These runs are on digits, the paper's numbers on cifar10" in rows_as_markdown(made)
    assert "These runs are on" not in rows_as_markdown(rows([result(labels())], TABLE))


def test_no_difference_is_taken_between_shrunk_images_and_the_papers(result, labels):
    run = result(labels())
    run.experiment["data"]["shrink"] = 2
    made = rows([run], TABLE)
    assert made[0].difference is None
    assert "These runs are on cifar10 shrunk 2 times, the paper's numbers on cifar10" in rows_as_markdown(made)


def test_runs_of_another_split_or_table_are_left_out(result, labels):
    runs = [result(labels(split="IID")), result(labels(split="non-IID")), result(labels(table="mnist-cnn-iid"))]
    assert [row.seeds for row in rows(runs, TABLE)] == [1]
    assert [row.seeds for row in rows(runs, "cifar10-cnn-iid")] == [1]


def test_one_seed_has_no_spread_and_a_run_without_records_no_numbers(result, labels):
    one, none = rows([result(labels()), result(labels(agents=10), [], ended="begun")], TABLE)
    assert one.spread is None
    assert (none.averaged, none.mean_agent, none.worst_agent, none.status) == (None, None, None, "running 0 %")


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (["finished"] * 3, "finished 3 of 3"),
        (["begun"], "running 40 %"),
        (["finished", "begun"], "finished 1 of 2, running 40 %"),
        (["interrupted"], "interrupted at 40 %"),
        (["diverged"], "diverged (collapsed at step 4)"),
        (["diverged", "diverged"], "diverged in 2 of 2 (collapsed at step 4)"),
        (["diverged", "finished", "finished"], "diverged in 1 of 3 (collapsed at step 4), finished 2 of 3"),
    ],
)
@pytest.mark.parametrize("training", [{"steps": 10}, {"epochs": 5.0}])
def test_the_status_says_how_far_the_seeds_have_come(result, record, labels, ends, words, training):
    runs = [
        result(
            labels(seed=seed), [record(step=4, epoch=2.0)], end, "collapsed at step 4: the loss is 3", training=training
        )
        for seed, end in enumerate(ends)
    ]
    assert rows(runs, TABLE)[0].status == words


def test_a_diverged_run_shows_where_it_went(result, record, labels):
    records = [record(step=1, accuracy=0.6), record(step=2, accuracy=0.1, agents=(0.1, 0.1))]
    (row,) = rows([result(labels(), records, "diverged", "exploded at step 2: the loss is 9", "exploded")], TABLE)
    assert (row.averaged, row.status) == (10.0, "diverged (exploded at step 2)")


def test_a_run_without_a_method_is_refused_by_name(result):
    with pytest.raises(ValueError, match="run-7 has no method"):
        rows([result({"graph": "ring", "agents": "5"}, name="run-7")], TABLE)
    with pytest.raises(ValueError, match="agents must be a whole number; found 'few'"):
        rows([result({"method": "CGA", "graph": "ring", "agents": "few"})], TABLE)


def test_markdown_and_terminal_show_the_same_numbers(result, record, labels):
    made = rows([result(labels(seed=s), [record(accuracy=0.6 + 0.1 * s)]) for s in range(2)], TABLE)
    lines = rows_as_markdown(made).splitlines()
    assert lines[0] == f"| {' | '.join(BESIDE_COLUMNS)} |"
    cells = "CGA (paper) | ring | 5 | 66.5 | 65.0 ± 5.0 | 50.0 | 25.0 | -1.5 | 2 | 2 | finished 2 of 2"
    assert lines[2] == f"| {cells} |"
    out = io.StringIO()
    Console(file=out, width=80).print(accuracy_table(made, "a table"))
    name, numbers = (line.split() for line in out.getvalue().splitlines()[2:4])
    assert name == ["CGA", "(paper),", "ring"]
    assert " ".join(numbers) == "5 66.5 65.0 ± 5.0 50.0 25.0 -1.5 2 finished 2 of 2"


def test_json_has_plain_values_and_the_command(result, labels):
    made = rows([result(labels()), result(labels("DPMSGD", variant=""))], TABLE)
    first, second = json.loads(json.dumps(as_json(made, lambda row: f"run {row.name}")))
    assert second == {
        "method": "CGA", "variant": "paper", "graph": "ring", "agents": 5, "paper": "66.5", "averaged": 50.0,
        "mean_agent": 50.0, "worst_agent": 25.0, "difference": -16.5, "epochs": 2.0, "seeds": 1, "spread": None,
        "status": "finished 1 of 1", "verdict": "not reached, 16.5 below, not run to the end",
        "command": "run CGA (paper)",
    }  # fmt: skip
    assert first["paper"] == "diverges"
    assert as_json(made)[0]["command"] is None
