"""Put the tables of docs/privacy.md there: from docs/privacy/inversion.json, results/guards and results/noise.

crossgrad sweep results/guards/grid.toml     # and results/noise/grid.toml; results/README.md says how they are packed
python proofs/privacy_tables.py
"""

import json
import re
from pathlib import Path

from crossgrad._runs.results import read_results

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "privacy.md"


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def inversion():
    """What was read from a gradient."""
    found = json.loads((ROOT / "docs" / "privacy" / "inversion.json").read_text())
    guess = found.pop("mean squared error of the mean digit")
    rows = [[what, f"{one['median squared error']:.2g}", " of ".join(map(str, one["recovered, of"]))]
            for what, one in found.items()]  # fmt: skip
    return table(
        ["gradient of", "median squared error", "digits recovered"], [*rows, ["guess: the mean digit", guess, ""]]
    )


def means(folder, axes, measure):
    """The mean of a number over the seeds, by labels; only runs that have ended count."""
    found: dict = {}
    for run in read_results(ROOT / "results" / folder):
        if run.ended != "begun":
            found.setdefault(tuple(run.labels[axis] for axis in axes), []).append(measure(run))
    return {key: sum(values) / len(values) for key, values in found.items()}


def honest(run):
    """Mean accuracy, in percent, of the agents that are not hostile."""
    hostile = run.experiment.get("attack", {}).get("agents", [])
    kept = [value for agent, value in enumerate(run.last.agent_accuracy) if agent not in hostile]
    return 100 * sum(kept) / len(kept)


def guards():
    """Accuracy of honest agents by rule and attack."""
    found = means("guards", ("split", "rule", "hostile"), honest)
    splits, rules, attacks = (list(dict.fromkeys(key[place] for key in found)) for place in range(3))
    order = ["nobody", "sign-flip", "noise"]
    attacks, splits = sorted(attacks, key=order.index), sorted(splits)
    rules = sorted(rules, key=lambda rule: (rule != "average", rule))
    names = {"nobody": "no attack"}
    head = ["rule", *(f"{split}, {names.get(attack, attack)}" for split in splits for attack in attacks)]
    rows = [[rule, *(f"{found[split, rule, attack]:.1f}" for split in splits for attack in attacks)] for rule in rules]
    return table(head, rows)


def noise():
    """Accuracy and epsilon by noise multiplier and method."""
    axes = ("method", "noise")
    accuracy = means("noise", axes, lambda run: 100 * run.last.accuracy)
    epsilon = means("noise", axes, lambda run: run.last.diagnostics.get("epsilon", float("inf")))
    methods = sorted({method for method, _ in accuracy}, reverse=True)
    levels = sorted({level for _, level in accuracy}, key=lambda level: (level != "none", level))
    head = ["noise multiplier", *(f"{method}: {what}" for method in methods for what in ("epsilon", "accuracy, %"))]
    cells = {key: (f"{epsilon[key]:.1f}" if key[1] != "none" else "", f"{accuracy[key]:.1f}") for key in accuracy}
    return table(head, [[level, *(one for method in methods for one in cells[method, level])] for level in levels])


def main():
    made = {"inversion": inversion, "guards": guards, "noise": noise}
    text = re.sub(
        r"<!-- (\w+) -->\n.*?<!-- end -->",
        lambda found: f"<!-- {found[1]} -->\n{made[found[1]]()}<!-- end -->",
        PAGE.read_text(),
        flags=re.DOTALL,
    )
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
