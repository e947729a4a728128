"""Six weather stations, one CSV file with a column that names the station, and a model of the temperature for all.

The file is made: at each station temperature depends in the same way on month, hour, sun and wind, but each lies at
its own altitude and in its own latitude, and measured in some months only. `ByColumn` gives each agent the rows of
one station. R2 is taken on rows that were held back, of the station itself and of all the others: of a model that was
trained on the station's rows alone, and of the station's model that was trained together.
"""

import csv
import math
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

import crossgrad as cg
from crossgrad.data import ByColumn, Samples, from_csv, read_column

STATIONS = {  # altitude in km, latitude in degrees, months with measurements
    "coast": (0.0, 54, range(1, 13)),
    "harbour": (0.0, 53, range(5, 9)),
    "plain": (0.1, 51, range(1, 13)),
    "hill": (0.6, 50, range(4, 11)),
    "valley": (0.4, 47, range(10, 13)),
    "summit": (2.2, 47, range(6, 10)),
}
INPUTS = ("altitude", "latitude", "season", "daytime", "sun", "wind")


def write(path: Path, rows: int = 120) -> None:
    """Measurements of all stations, in random order."""
    draw = random.Random(0)
    table = []
    for station, (altitude, latitude, months) in STATIONS.items():
        for _ in range(rows):
            month, hour, sun, wind = draw.choice(months), draw.randrange(24), draw.random(), draw.random()
            season, daytime = -math.cos(2 * math.pi * (month - 0.5) / 12), -math.cos(2 * math.pi * (hour - 2) / 24)
            warm = 10 - 6.5 * altitude - 0.6 * (latitude - 50) + 9 * season + 4 * daytime * (0.3 + sun)
            temperature = warm - 3 * wind * (1 - 0.5 * season) + draw.gauss(0, 1)
            scaled = (altitude, (latitude - 50) / 4, season, daytime, sun, wind)
            table.append([station, *(f"{value:.3f}" for value in scaled), f"{temperature / 10:.3f}"])
    draw.shuffle(table)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["station", *INPUTS, "temperature"], *table])


def fitted(data: object, stations: int, steps: int, **options: object) -> cg.Result:
    """A small network trained on a ring of stations, or on one."""
    torch.manual_seed(0)
    graph = cg.ring(stations) if stations > 1 else cg.fully_connected(1)
    model = nn.Sequential(nn.Linear(len(INPUTS), 24), nn.Tanh(), nn.Linear(24, 1), nn.Flatten(0))
    return cg.fit(
        model, data, graph=graph, algorithm=cg.EDM(), lr=0.1, batch_size=16, steps=steps, evaluate_every=steps,
        progress=False, **options,
    )  # fmt: skip


def main(steps: int = 400) -> dict[str, list[float]]:
    """Print a row for each station; R2 by column."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "stations.csv")
        write(path)
        rows, station = from_csv(path, "temperature", INPUTS), read_column(path, "station")
    held = len(station) // 4  # rows, which are in random order
    train, names = Samples(rows.inputs[held:], rows.labels[held:]), sorted(STATIONS)
    tests = [part(rows, torch.from_numpy(station[:held] == name)) for name in names]
    together = fitted(train, len(names), steps, partition=ByColumn(station[held:]))
    columns: dict[str, list[float]] = {"alone": [], "together": [], "alone, elsewhere": [], "together, elsewhere": []}
    for number, name in enumerate(names):
        alone = fitted([part(train, torch.from_numpy(station[held:] == name))], 1, steps)
        others = part(rows, torch.from_numpy(station[:held] != name))
        for column, model in (("alone", alone.model), ("together", together.agent_model(number))):
            columns[column].append(r2(model, *tests[number]))
            columns[f"{column}, elsewhere"].append(r2(model, *others))
    print("R2 on       own rows: alone  together   other stations: alone  together")
    for name, a, b, c, d in zip(names, *columns.values(), strict=True):
        worse = "  (worse together)" if round(b, 2) < round(a, 2) else ""
        print(f"{name:11} {a:15.2f} {b:9.2f} {c:23.2f} {d:9.2f}{worse}")
    return columns


def part(rows: Samples, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The inputs and labels of the chosen among the first rows."""
    return rows.inputs[: len(chosen)][chosen], rows.labels[: len(chosen)][chosen]


@torch.no_grad()
def r2(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    """1 - squared errors / variance."""
    return float(1 - (model(inputs) - labels).square().mean() / labels.var(correction=0))


if __name__ == "__main__":
    main()
