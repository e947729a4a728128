"""The state of the runs of one cell, in a few words."""

from collections.abc import Sequence

from crossgrad._runs.results import RunResult


def status_of(results: Sequence[RunResult]) -> str:
    """The state, such as "finished 3 of 3", or "diverged in 1 of 3 (collapsed at step 120), finished 2 of 3"."""
    ends = {end: [r for r in results if r.ended == end] for end in ("diverged", "finished", "interrupted", "begun")}
    count, parts = len(results), []
    if ends["diverged"]:
        share = "" if count == 1 else f" in {len(ends['diverged'])} of {count}"
        parts.append(f"diverged{share} ({', '.join(dict.fromkeys(map(_short_reason, ends['diverged'])))})")
    if ends["finished"]:
        parts.append(f"finished {len(ends['finished'])} of {count}")
    if ends["interrupted"]:
        parts.append(f"interrupted at {_percent_done(ends['interrupted'])}")
    if ends["begun"]:
        parts.append(f"running {_percent_done(ends['begun'])}")
    return ", ".join(parts)


def _short_reason(result: RunResult) -> str:
    """What happened and when, such as "collapsed at step 120"; the rest of the reason is left out."""
    summary = result.summary or {}
    when = f"{summary.get('status', 'diverged')} at step {summary.get('steps', '?')}"
    return str(summary.get("reason") or when).partition(":")[0]


def _percent_done(results: Sequence[RunResult]) -> str:
    """The share of these runs that is done, on average."""
    return f"{100 * sum(result.progress for result in results) / len(results):.0f} %"
