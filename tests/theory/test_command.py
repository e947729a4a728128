"""`crossgrad theory` as people use it."""

import json
import re
import sys
from pathlib import Path

import pytest

from crossgrad._cli.main import main
from crossgrad.algorithms import ALGORITHMS, Needs

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits-ring.toml"
SMALL = ["agents=3", "model={name='mlp',hidden=[4]}", "--steps", "2"]
COVERED = {"dpsgd", "dpmsgd", "cga", "compcga", "cga-mean"}


@pytest.fixture
def theory(monkeypatch, capsys, tmp_path):
    """Runs the command in this process and in an empty folder; its status, what it printed and what it complained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["crossgrad", "theory", str(EXAMPLE), *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert list(tmp_path.iterdir()) == [], "nothing is kept"
        return int(end.value.code or 0), out, err

    return call


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_judged_or_told_that_the_theorem_is_silent(theory, name):
    graph = "chain" if Needs.TREE in ALGORITHMS[name]().needs else "ring"
    status, out, _ = theory(*SMALL, f"algorithm={name}", f"graph={graph}", "--json")
    assert status == 0
    said = json.loads(out)
    assert said["algorithm"]["covered"] == (name in COVERED)
    assert ("does not cover" in said["algorithm"]["says"]) == (name not in COVERED)
    assert ("conditions" in said) == (name in COVERED)
    assert min(said["estimates"][constant] for constant in ("L", "sigma", "delta", "start")) > 0
    if name in COVERED:
        assert (said["constants"]["epsilon"] > 0) == ("cga" in name)


def test_what_it_prints_has_every_number_and_every_verdict(theory):
    status, out, _ = theory(*SMALL)
    said = json.loads(theory(*SMALL, "--json")[1])
    assert status == 0
    for word in ("sqrt(rho)", "spectral gap", "C1", "C6", "delta^2, C5", "sum", "gradients"):
        assert word in out
    for constant in ("L", "sigma", "delta", "epsilon"):
        row = re.search(rf"^{constant} +(\S+) +estimate: ", out, re.MULTILINE)
        assert float(row[1]) == pytest.approx(said["estimates"][constant], rel=1e-3), constant
    limits = said["limits"]
    assert limits["corrected"] < limits["printed_second"] < 0.01 < limits["printed_first"]
    verdicts = re.findall(r"^- (holds|VIOLATED): (.*)\.$", out, re.MULTILINE)
    assert [found == "holds" for found, _ in verdicts] == [condition["holds"] for condition in said["conditions"]]
    assert f"alpha = 0.01, estimated limit {limits['corrected']:.3g}" in out
    assert f"alpha = 0.01, estimated limit {limits['printed_second']:.3g}" in out
    assert f"K = 1,000, estimated smallest {said['smallest_steps']['corrected']:.3g}" in out
    assert "claims nothing at alpha = 0.01" in out
    bad = sum(not condition["holds"] for condition in said["conditions"])
    assert f"{bad} of 7 conditions are violated" in out
    assert out.endswith(f"allows alpha up to {limits['corrected']:.3g}.\n")
    tables = [line for line in out.splitlines() if "  " in line]
    assert len(tables) > 25
    assert all(len(line) <= 80 for line in tables)


def test_a_run_within_the_theorem_is_told_so(theory):
    status, out, _ = theory(
        *SMALL, "algorithm.momentum=0", "graph=fully-connected", "schedule={name='constant',lr=1e-4}"
    )
    assert status == 0
    assert "holds: Theorem 1, a constant step size: alpha = 0.0001." in out
    assert "holds: Theorem 1 corrected, alpha <= alpha*: alpha = 0.0001" in out
    assert "VIOLATED: Theorem 1 as printed, alpha <= beta L / (1 - beta)^2: alpha = 0.0001, estimated limit 0" in out
    assert "undefined" in out
    assert "the corrected theorem has" in out


def test_one_agent_is_judged(theory):
    said = json.loads(theory("agents=1", "model={name='mlp',hidden=[4]}", "--steps", "1", "--json")[1])
    assert said["graph"] == {"sqrt_rho": 0.0, "rho": 0.0, "spectral_gap": 1.0}
    assert said["estimates"]["delta"] == pytest.approx(0, abs=1e-6)
    assert said["estimates"]["consensus"] == said["estimates"]["epsilon"] == 0


def test_when_the_seconds_are_over_it_says_so(theory):
    status, out, _ = theory(*SMALL[:2], "--seconds", "0")
    assert status == 0
    assert "The seconds were over after 1 steps; --seconds gives more." in out
    assert "The largest curvature still grew when the search for it ended: L is larger." in out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["graph=random-matchings"], "one fixed graph; 'random-matchings' changes"),
        (["faults.drop=0.1"], "faults change it from step to step"),
        (["graph=exponential", "agents=7"], "needs an undirected graph"),
        (["algorithm.momentum=1"], "momentum"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_theory_cannot_speak_of_is_refused_in_a_sentence(theory, changes, words):
    status, out, err = theory(*SMALL[:2], *changes, "--steps", "2")
    assert (status, out) == (2, "")
    assert err.startswith("crossgrad: ")
    assert err.count("\n") == 1
    assert words in err
