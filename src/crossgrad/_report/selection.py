"""Which runs a figure shows."""

from collections.abc import Callable

from crossgrad._report.seed_groups import GRAPH_ORDER, SeedGroup, ordered

PROJECTION = "active"  # the diagnostic that methods with a projection declare: the share of active constraints


def fewest(cells: list[SeedGroup]) -> list[SeedGroup]:
    """The runs with the fewest agents: the paper draws its curves for 5."""
    agents = min((c.key.agents for c in cells), default=0)
    return [c for c in cells if c.key.agents == agents]


def projecting(cells: list[SeedGroup]) -> list[SeedGroup]:
    """The first method and variant that projects on cross-gradients, by its diagnostics; with the fewest agents."""
    found = fewest([c for c in cells if PROJECTION in c.runs[0].records[-1].diagnostics])
    return [c for c in found if c.key.name == found[0].key.name]


def projecting_tested(cells: list[SeedGroup]) -> list[SeedGroup]:
    """As `projecting`, if the agents' own models were tested."""
    return [c for c in projecting(cells) if c.runs[0].records[-1].agent_accuracy]


def non_iid(cells: list[SeedGroup]) -> list[SeedGroup]:
    """Runs on non-IID data, with the fewest agents."""
    return fewest([c for c in cells if c.key.split == "non-IID"])


def on_one_graph(cells: list[SeedGroup]) -> list[SeedGroup]:
    """Non-IID on a ring, the graph of the three that mixes slowest; on another where there is no ring."""
    graphs = ordered((c.key.graph for c in non_iid(cells)), ("ring", *GRAPH_ORDER))
    return [c for c in non_iid(cells) if c.key.graph == graphs[0]]


def several(axis: str) -> Callable[[list[SeedGroup]], list[SeedGroup]]:
    """The runs that have ended, where they differ along an axis; the others' last records are not their end."""

    def choose(cells: list[SeedGroup]) -> list[SeedGroup]:
        ended = [SeedGroup(c.key, tuple(run for run in c.runs if run.ended in ("finished", "diverged"))) for c in cells]
        known = [c for c in ended if c.runs]
        return known if len({getattr(c.key, axis) for c in known}) > 1 else []

    return choose
