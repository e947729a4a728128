"""Gradient inversion: digits that a neighbour reads from one gradient, with a batch of 1 and of 64, and with noise.

The attacker has the model at which the gradient was taken and the gradient, as a neighbour of CGA has, and the labels.
It looks for inputs with the same gradient: the least squared distance between the two, by L-BFGS from random inputs.

    python proofs/inversion.py --out docs/privacy

Reference: Zhu, Liu, Han: Deep Leakage from Gradients. NeurIPS 2019, arXiv:1906.08935.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch.nn.functional import cross_entropy

from crossgrad import guards, models
from crossgrad.experiments.choices import DataChoice
from crossgrad.guards.privacy import clip_
from crossgrad.models.zoo import MODELS

matplotlib.use("Agg")
from matplotlib import pyplot as plt

TRIES, ITERATIONS, SHOWN = 3, 300, 8
GUARD = guards.GaussianNoise(clip=1.0, multiplier=1.0)


def gradient(model, inputs, labels, graph=False):
    loss = cross_entropy(model(inputs), labels)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()), create_graph=graph)])


def guarded(model, inputs, labels):
    """The gradient as `GaussianNoise` sends it."""
    each = [clip_(gradient(model, inputs[i : i + 1], labels[i : i + 1]), GUARD.clip) for i in range(len(inputs))]
    g = torch.stack(each).mean(dim=0)
    GUARD.add_noise_(g, len(inputs), np.random.default_rng(0))
    return g


def inverted(model, g, labels, shape, seed):
    """Inputs whose gradient is nearest to g, of several tries."""
    best, least = None, float("inf")
    for number in range(TRIES):
        found = torch.rand(shape, generator=torch.Generator().manual_seed(seed + number), dtype=g.dtype)
        found.requires_grad_(True)
        search = torch.optim.LBFGS([found], max_iter=ITERATIONS, history_size=20, line_search_fn="strong_wolfe")

        def closure():
            search.zero_grad()
            away = (gradient(model, found, labels, graph=True) - g).square().sum() / g.square().sum()
            away.backward()
            return away

        search.step(closure)
        if (left := float(closure().detach())) < least:
            best, least = found.detach().clamp(0, 1), left
    return best, least


def matched(true, found):
    """Found inputs in the order of the true ones that they are nearest to, and the mean squared errors."""
    away = torch.cdist(true.flatten(1), found.flatten(1)).square() / true[0].numel()
    rows, columns = linear_sum_assignment(away.numpy())
    return found[columns], away[rows, columns]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/privacy"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    train = DataChoice().load().train
    inputs, labels = train.piece(0, len(train))
    inputs = inputs.double()
    spread = float((inputs - inputs.mean(dim=0)).square().mean())  # error of who guesses the mean digit
    model = models.build(MODELS["mlp"](), train.shape, 10, 0).double()
    rows, figures = [], {"mean squared error of the mean digit": round(spread, 4)}
    for what, batch, of in (
        ("batch of 1", 1, gradient),
        ("batch of 64", 64, gradient),
        ("batch of 1, noise", 1, guarded),
    ):
        true, their = inputs[:SHOWN], labels[:SHOWN]
        if batch == 1:
            pairs = [inverted(model, of(model, true[i : i + 1], their[i : i + 1]), their[i : i + 1], true[:1].shape, i)
                     for i in range(SHOWN)]  # fmt: skip
            found, left = torch.cat([one for one, _ in pairs]), float(np.median([left for _, left in pairs]))
            errors = (found - true).square().flatten(1).mean(dim=1)
        else:
            true, their = inputs[:batch], labels[:batch]
            best, left = inverted(model, of(model, true, their), their, true.shape, 0)
            found, errors = matched(true, best)
        figures[what] = {
            "median squared error": float(f"{float(errors.median()):.3g}"),
            "recovered, of": [int((errors < spread / 10).sum()), len(errors)],
            "distance of gradients left": float(f"{left:.3g}"),
        }
        rows.append((what, found[:SHOWN]))
        print(what, figures[what], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    picture([("the digits", inputs[:SHOWN]), *rows], options.out / "inversion.png")
    (options.out / "inversion.json").write_text(json.dumps(figures, indent=1) + "\n")


def picture(rows, path):
    figure, axes = plt.subplots(len(rows), SHOWN, figsize=(SHOWN * 0.9, len(rows)))
    for line, (what, digits) in zip(axes, rows, strict=True):
        for place, digit in zip(line, digits, strict=True):
            place.imshow(digit.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            place.set_xticks([])
            place.set_yticks([])
        line[0].set_ylabel(what.replace(", ", "\n"), rotation=0, ha="right", va="center")
    figure.savefig(path, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
