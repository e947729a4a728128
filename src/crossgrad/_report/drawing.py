"""Positions of the agents of a graph: coordinates from 0 to 1, x to the right and y down."""

from math import cos, isqrt, sin, tau
from typing import Any

import networkx as nx

from crossgrad._storage.damage import damaged

Position = tuple[float, float]
Edge = tuple[int, int, float]  # receiver, sender, weight


def read_edges(agents: dict[str, Any]) -> list[Edge]:
    """The edges of an agents.json. Raises ValueError if the file is damaged."""
    count, edges = agents.get("agents"), agents.get("edges")
    good = type(count) is int and isinstance(edges, list) and all(_is_edge(edge, count) for edge in edges)
    if not good:
        raise damaged("agents.json", "each edge must be [receiver, sender, weight]; found another")
    return [(int(receiver), int(sender), float(weight)) for receiver, sender, weight in edges or []]


def positions(agents: int, name: str, edges: list[Edge]) -> list[Position]:
    """The position of each agent: a circle for rings, two columns for bipartite graphs, a spring layout for others.

    >>> positions(4, "ring", [(j, (j + 1) % 4, 0.5) for j in range(4)])
    [(0.5, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 0.5)]
    """
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(agents))
    graph.add_edges_from((receiver, sender) for receiver, sender, _ in edges if receiver != sender)
    return _scaled(_layout(graph, name))


def _layout(graph: "nx.Graph[int]", name: str) -> list[Position]:
    count = len(graph)
    if "bipartite" in name and count > 2 and nx.is_connected(graph) and nx.is_bipartite(graph):
        return _sides(graph)
    if name == "star" and count > 2:
        hub = max(graph, key=lambda j: graph.degree[j])
        around = _circle(count - 1)
        return [*around[:hub], (0.0, 0.0), *around[hub:]]
    if name == "chain":
        return [(float(j), 0.0) for j in range(count)]
    if name == "torus" and (rows := _rows(count)) > 1:
        # A little off the grid, so that the edges that wrap around the torus are not hidden by the others.
        width = count // rows
        return [(j % width + 0.12 * (j // width % 2), j // width + 0.12 * (j % width % 2)) for j in range(count)]
    if all(degree == 2 for _, degree in graph.degree) or nx.density(graph) > 0.5 or "exponential" in name:
        return _circle(count)
    springs = nx.spring_layout(graph, seed=0, iterations=200)
    return [(float(springs[j][0]), float(springs[j][1])) for j in range(count)]


def _circle(count: int) -> list[Position]:
    """Positions on a circle, clockwise from the top."""
    angles = [tau * j / max(1, count) for j in range(count)]
    return [(sin(angle), -cos(angle)) for angle in angles]


def _sides(graph: "nx.Graph[int]") -> list[Position]:
    side = nx.bipartite.color(graph)
    members = [[j for j in graph if side[j] == which] for which in (0, 1)]
    tallest = max(map(len, members))
    positions = {
        j: (float(which), (number + 0.5) * tallest / len(group))
        for which, group in enumerate(members)
        for number, j in enumerate(group)
    }
    return [positions[j] for j in graph]


def _rows(agents: int) -> int:
    """The rows of a torus, which is as square as the number of agents allows."""
    return next(rows for rows in range(isqrt(agents), 0, -1) if agents % rows == 0)


def _scaled(points: list[Position]) -> list[Position]:
    """Scale positions into the middle of the unit square, as large as possible."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    middle = ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
    size = max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0
    return [(round((x - middle[0]) / size + 0.5, 4), round((y - middle[1]) / size + 0.5, 4)) for x, y in points]


def _is_edge(edge: Any, agents: int) -> bool:
    if not isinstance(edge, list) or len(edge) != 3:
        return False
    ends = all(type(end) is int and 0 <= end < agents for end in edge[:2])
    return ends and type(edge[2]) in (int, float)
