"""Five agents with few images each, without augmentation and with random shifts that are drawn anew for every batch.

Data: 300 handwritten digits of 8x8 pixels (part of scikit-learn) to train on, the others to test. The augmentation is
an object of one's own: it gets the inputs of a batch and a generator that is seeded by run, agent and batch.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import pad

import crossgrad as cg


@dataclass(frozen=True)
class Shift:
    """Every image moves by up to so many pixels to each side; what leaves on one side is lost."""

    pixels: int = 1

    def __call__(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """A shifted copy of the images (n, 1, height, width)."""
        height, width = inputs.shape[2:]
        places = torch.randint(2 * self.pixels + 1, (len(inputs), 2), generator=generator).tolist()
        padded = pad(inputs, [self.pixels] * 4)
        shifted = [one[:, t : t + height, l : l + width] for one, (t, l) in zip(padded, places, strict=True)]
        return torch.stack(shifted)


def main(steps: int = 400) -> dict[str, float]:
    """Print and return the accuracy of the averaged model, without and with augmentation."""
    digits = cg.load("digits")
    X, y = torch.cat([digits.train.inputs, digits.test.inputs]), torch.cat([digits.train.labels, digits.test.labels])
    train, test = (X[:300], y[:300]), (X[300:], y[300:])
    accuracies = {}
    for name, augment in (("as they are", None), ("shifted anew", Shift())):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip
        result = cg.fit(
            model, train, test=test, graph=cg.ring(5), algorithm=cg.EDM(), partition=cg.Dirichlet(alpha=0.5),
            augment=augment, lr=cg.Cosine(1.0), batch_size=16, steps=steps, progress=False,
        )  # fmt: skip
        last = result.records[-1]
        accuracies[name] = last.accuracy
        worst = f"of the worst agent {last.worst_agent:.1%}"
        print(f"images {name:13} accuracy of the averaged model {last.accuracy:.1%}, {worst}")
    return accuracies


if __name__ == "__main__":
    main()
