"""Five hospitals with different cases learn to predict malignant tumours: alone, and together without sharing a case.

Data: 569 cases of breast cancer with 30 measurements each (Wolberg et al., part of scikit-learn). Sixty-nine of them
are public and serve only to scale the measurements; the others are dealt out. The area under the ROC curve is taken
on cases that a hospital holds back, and is the mean over several ways to deal the cases out.
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import crossgrad as cg

HOSPITALS = {  # name: cases, share of malignant ones
    "university": (190, 0.35),
    "city": (130, 0.25),
    "oncology": (60, 0.80),
    "district": (70, 0.30),
    "village": (30, 0.20),
}
HELD_OUT = 0.4  # of a hospital's cases


Cases = tuple[torch.Tensor, torch.Tensor]  # scaled measurements, and 1 for malignant tumours


def deal(seed: int) -> tuple[list[Cases], list[Cases]]:
    """The hospitals' cases to train on, and those that they hold back."""
    raw, benign = load_breast_cancer(return_X_y=True)
    X, y = torch.tensor(raw, dtype=torch.float32), torch.tensor(1 - benign)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
    public, order = order[:69], order[69:]
    X = (X - X[public].mean(dim=0)) / X[public].std(dim=0)
    malignant, others = order[y[order] == 1], order[y[order] == 0]
    train, test = [], []
    for cases, share in HOSPITALS.values():
        sick = round(cases * share)
        held = (malignant[: round(sick * HELD_OUT)], others[: round((cases - sick) * HELD_OUT)])
        kept = (malignant[len(held[0]) : sick], others[len(held[1]) : cases - sick])
        train.append((X[torch.cat(kept)], y[torch.cat(kept)]))
        test.append((X[torch.cat(held)], y[torch.cat(held)]))
        malignant, others = malignant[sick:], others[cases - sick :]
    return train, test


def area(train: list[Cases], test: list[Cases], steps: int, seed: int) -> torch.Tensor:
    """The area under the ROC curve of each hospital's own model, on its own test cases."""
    torch.manual_seed(0)  # all start from the same model
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    graph = cg.ring(len(train)) if len(train) > 1 else cg.fully_connected(1)
    result = cg.fit(
        model, train, own_test=test, graph=graph, algorithm=cg.EDM(), lr=0.1, batch_size=16, steps=steps, seed=seed,
        metrics=["auroc"], evaluate_every=steps, progress=False,
    )  # fmt: skip
    return torch.tensor(result.records[-1].metrics["auroc_own"].agents)


def main(steps: int = 150, seeds: int = 5) -> dict[str, list[float]]:
    """Print a row for each hospital; the areas of "alone" and "together", hospital by hospital."""
    areas = {"alone": torch.zeros(len(HOSPITALS)), "together": torch.zeros(len(HOSPITALS))}
    for seed in range(seeds):
        train, test = deal(seed)
        areas["together"] += area(train, test, steps, seed) / seeds
        areas["alone"] += torch.cat([area([train[j]], [test[j]], steps, seed) for j in range(len(train))]) / seeds
    print("hospital    cases  malignant  area under ROC, alone  together")
    for number, (name, (cases, share)) in enumerate(HOSPITALS.items()):
        alone, together = (round(float(areas[column][number]), 3) for column in ("alone", "together"))
        worse = "  (worse together)" if together < alone else ""
        print(f"{name:11} {cases:5} {share:9.0%} {alone:22.3f} {together:9.3f}{worse}")
    return {name: values.tolist() for name, values in areas.items()}


if __name__ == "__main__":
    main()
