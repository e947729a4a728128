"""Table 1: its formulas, and the bytes that are really sent."""

import io
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from crossgrad._cli.tables import rates_table
from crossgrad._paper.rates import RATES, Sizes
from crossgrad._paper.table1 import RATE_COLUMNS, TABLE1_ALGORITHMS, notes_on_rates, rates_as_markdown, table1

FOLDER = os.environ.get("CROSSGRAD_PAPER")
PARAMETERS = 64 * 32 + 32 + 32 * 10 + 10
MODEL = 4 * PARAMETERS


@pytest.fixture(scope="module")
def ring():
    return {row.rate.method: row for row in table1("ring", 5, steps=2)}


def test_every_method_of_the_table_is_measured(ring):
    assert list(ring) == list(TABLE1_ALGORITHMS) == ["DPSGD", "SGP", "SwarmSGD", "CGA", "CompCGA"]
    assert {row.sizes for row in ring.values()} == {Sizes(PARAMETERS, 5, 15)}


def test_what_a_ring_of_five_sends_counted_by_hand(ring):
    signs = -(-PARAMETERS // 8)
    assert {method: row.by_kind for method, row in ring.items()} == {
        "DPSGD": {"model": 10 * MODEL},
        "SGP": {"model": 10 * MODEL, "weight": 10 * 4},
        "SwarmSGD": {"model": 2 * MODEL},
        "CGA": {"model": 10 * MODEL, "gradient": 10 * MODEL},
        "CompCGA": {"model": 10 * MODEL, "code": 10 * (signs + 4)},
    }
    for row in ring.values():
        assert row.measured == sum(row.by_kind.values())


def test_the_papers_formulas_on_a_ring_of_five(ring):
    assert {method: row.printed / MODEL for method, row in ring.items()} == {
        "DPSGD": 15, "SGP": 15, "SwarmSGD": 7.5, "CGA": 30, "CompCGA": 30 / 32
    }  # fmt: skip


@pytest.mark.parametrize(
    ("graph", "agents", "entries"),
    [
        ("fully-connected", 5, 25),
        ("bipartite", 5, 17),
        ("fully-connected", 10, 100),
        ("ring", 10, 30),
        ("bipartite", 10, 42),
        ("fully-connected", 40, 1600),
        ("ring", 40, 120),
        ("bipartite", 40, 192),
    ],
)
def test_the_bytes_sent_are_those_of_the_formula_without_the_diagonal(graph, agents, entries):
    for row in table1(graph, agents, steps=1):
        assert (row.sizes.agents, row.sizes.entries) == (agents, entries)
        assert row.measured == row.rate.sent_bytes(row.sizes)


def test_swarm_takes_many_steps_for_a_mini_batch_of_every_agent(ring):
    assert ring["SwarmSGD"].per_batch_each == 5 * MODEL
    assert ring["CGA"].per_batch_each == ring["CGA"].measured


def test_compression_saves_less_than_half(ring):
    share = ring["CompCGA"].measured / ring["CGA"].measured
    assert (1 + 1 / 32) / 2 < share < 0.517
    assert (
        f"CompCGA sends {share:.1%} of what CGA sends, and saves {1 - share:.1%}"
        in notes_on_rates(list(ring.values()))[-1]
    )


def test_markdown_and_terminal_show_the_same_numbers(ring):
    rows = list(ring.values())
    lines = rates_as_markdown(rows).splitlines()
    assert lines[0] == f"| {' | '.join(RATE_COLUMNS)} |"
    assert lines[4] == "| SwarmSGD | O(1/√K) | m_s N_b / 2 | 72.3 | 19.3 | 48.2 | 0.67 | 2 m_s |"
    out = io.StringIO()
    Console(file=out, width=80).print(rates_table(rows, "Table 1"))
    shared = [re.split(r" {2,}", line.strip()) for line in out.getvalue().splitlines()]
    assert ["SwarmSGD", "O(1/√K)", "m_s N_b / 2"] in shared
    assert ["SwarmSGD", "2 m_s", "72.3", "19.3", "48.2", "0.67"] in shared


@pytest.mark.skipif(not FOLDER, reason="CROSSGRAD_PAPER does not name the folder of the paper's text")
def test_rates_and_formulas_are_those_of_the_papers_text():
    text = (Path(FOLDER) / "cross-gradient-aggregation.tex").read_text(encoding="utf-8")
    table = text[text.index(r"\label{table1}") : text.index(r"\end{table*}")]
    plain = re.sub(r"\\frac\{(.+?)\}\{(\\sqrt\{\w+\}|\w\^\{[\d.]+\}|\w+\^?\d*)\}", r"\1/\2", table)
    for latex, ours in ((r"\mathcal{O}", "O"), (r"\sqrt{NK}", "√(NK)"), (r"\sqrt{K}", "√K"), ("^2", "²")):
        plain = plain.replace(latex, ours)
    plain = re.sub(r"[{}$]| (?=\))", "", plain)
    for rate in RATES[:4]:
        line = re.search(rf"^ *{rate.method}\b.*$", plain, re.MULTILINE).group().rstrip("\\ ").split("&")
        _, stated, sent, variance, moment = (part.strip() for part in line)
        assert stated == rate.rate
        assert sent.replace("mathcalO", "O") == f"O({_dense(rate.printed)} + \\gamma)"
        assert (variance.lower(), moment.lower()) == (rate.bounded_variance, rate.bounded_moment)
    assert f"O({_dense(RATES[4].printed)} + \\gamma)" in plain


def _dense(formula: str) -> str:
    """As the paper sets it: without spaces, and the half at the number of entries."""
    return formula.replace(" ", "")
