"""The tables of `crossgrad theory`: estimated constants, the theorem's bounds and its conditions."""

import math
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from crossgrad._cli.console import say
from crossgrad._cli.progress import LINE_SECONDS
from crossgrad._training.trainer import Training
from crossgrad.theory import (
    Claims,
    Estimates,
    Verdict,
    corrected_bound,
    corrected_coefficients,
    estimate,
    printed_bound,
    printed_coefficients,
)

TERMS = {
    "start": "(F(x0) - F*) / (C1 K)",
    "epsilon_steps": "epsilon^2, C2 and C3",
    "epsilon_bias": "epsilon^2, C4",
    "epsilon_consensus": "epsilon^2, C5",
    "sigma_steps": "sigma^2 / N, C2 and C3",
    "sigma_consensus": "sigma^2, C5",
    "delta_consensus": "delta^2, C5",
    "total": "sum",
}


def show_verdict(console: Console, title: str, result: Verdict) -> None:
    """Print the constants and what the theorem claims with them."""
    say(console, title)
    say(console, result.coverage.sentence)
    _show_constants(console, result)
    if result.claims is not None:
        _show_claims(console, result.claims)


def estimate_with_progress(training: Training, steps: int, seconds: float) -> Estimates:
    """Estimate the constants, with a bar on a terminal and a line every few seconds elsewhere, both on stderr."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("estimating, {task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(),
        TextColumn("steps"), TimeElapsedColumn(), console=console, expand=True, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip
    task, last = bar.add_task("", total=steps), time.monotonic()

    def report(what: str, done: int, of: int) -> None:
        nonlocal last
        bar.update(task, description=what, completed=done, total=of)
        if not console.is_terminal and time.monotonic() - last > LINE_SECONDS:
            last = time.monotonic()
            console.print(f"estimating, {what}: {done}/{of} steps", highlight=False)

    with bar:
        return estimate(training, steps, seconds, report)


def _show_constants(console: Console, result: Verdict) -> None:
    e = result.estimates
    part = "" if e.all_samples else ", over a part of each agent's samples"
    say(console, f"\nGraph, and constants on the first {e.steps} steps{part}")
    table = _number_table("", "value", "")
    table.add_row("sqrt(rho)", f"{result.mixing_rate:.4f}", "exact")
    table.add_row("spectral gap", f"{1 - result.mixing_rate:.4g}", "exact")
    table.add_row("L", f"{e.L:.4g}", "estimate: largest curvature of an agent's loss")
    table.add_row("sigma", f"{e.sigma:.4g}", "estimate: noise of mini-batches")
    table.add_row("delta", f"{e.delta:.4g}", "estimate: agents' full gradients against their mean")
    if result.claims is not None:
        table.add_row("epsilon", f"{e.epsilon:.4g}", "estimate: |g~ - g|")
    table.add_row("F(x0) - F*", f"{e.start:.4g}", "at most: F(x0), as losses are not negative")
    console.print(table)
    if not e.settled:
        say(
            console,
            "The largest curvature still grew when the search for it ended: L is larger. More --seconds may help.",
        )
    if not e.complete:
        say(console, f"The seconds were over after {e.steps} steps; --seconds gives more.")


def _show_claims(console: Console, claims: Claims) -> None:
    c, e, at_limit = claims.constants, claims.estimates, claims.at_limit
    say(console, "\nTheorem 1 after K steps of one size; (in brackets): alpha is above the limit")
    table = _number_table("", "printed", "corrected", "corrected at alpha*")
    table.add_row("alpha", _shown_number(c.lr), _shown_number(c.lr), _shown_number(at_limit.lr))
    printed, corrected, best = printed_coefficients(c), corrected_coefficients(c), corrected_coefficients(at_limit)
    for name in ("C1", "C2", "C3", "C4", "C5", "C6"):
        first = math.nan if printed is None else getattr(printed, name)
        table.add_row(name, *(_shown_number(value) for value in (first, getattr(corrected, name), getattr(best, name))))
    bounds = printed_bound(c), corrected_bound(c), corrected_bound(at_limit)
    for name, label in TERMS.items():
        values = [getattr(bound, name) for bound in bounds]
        table.add_row(label, _shown_number(values[0], claims.printed), _shown_number(values[1], claims.corrected),
                      _shown_number(values[2]))  # fmt: skip
    console.print(table)
    say(console, f"\nLemma 1: squared distance from the average, mean over agents, sum over {e.steps} steps")
    lemma = _number_table("", "measured", "printed", "corrected")
    old, new = claims.lemma()
    for name in ("epsilon", "sigma", "delta", "gradients", "total"):
        measured = _shown_number(e.consensus * e.steps) if name == "total" else ""
        lemma.add_row(name, measured, _shown_number(getattr(old, name)), _shown_number(getattr(new, name)))
    console.print(lemma)
    right = corrected_bound(claims.short_run).total
    says = f"the corrected theorem has {right:.4g} for them" if claims.corrected else (
        f"the corrected theorem claims nothing at alpha = {c.lr:.3g}")  # fmt: skip
    say(console, f"\nMean of |grad F|^2 over these {e.steps} steps (estimate): {e.left:.4g}; {says}.")
    for condition in claims.conditions:
        say(console, f"- {condition.sentence}")
    say(console, f"- not decided by one run: Corollary 1, epsilon = O(1 / sqrt(K)): epsilon = {e.epsilon:.3g} "
                 f"(estimate), 1 / sqrt(K) = {c.steps**-0.5:.3g}.")  # fmt: skip
    violated = sum(not condition.holds for condition in claims.conditions)
    say(console, f"{violated} of {len(claims.conditions)} conditions are violated; with this momentum, graph and L the "
                 f"corrected theorem allows alpha up to {at_limit.lr:.3g}.")  # fmt: skip


def _number_table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in columns:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return table


def _shown_number(value: float, claimed: bool = True) -> str:
    if math.isnan(value):
        return "undefined"
    text = "nothing" if math.isinf(value) else f"{value:.4g}"
    return text if claimed or math.isinf(value) else f"({text})"
