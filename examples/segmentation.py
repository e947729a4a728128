"""Four cameras, each of which sees mostly one kind of shape, learn to mark discs and squares pixel by pixel.

The images are made: a bright disc or a dark square on noise. Labels are one class per pixel (background, disc,
square), the metric is the mean intersection over union. A model of one camera alone hardly knows the other kind.
"""

import torch
from torch import nn

import crossgrad as cg
from crossgrad import tasks

SIZE = 24  # pixels


def pictures(count: int, discs: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (n, 1, 24, 24) and a class for each pixel; `discs` is the share of images that show a disc."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    images, labels = 0.5 * torch.randn(count, 1, SIZE, SIZE, generator=generator), []
    for number in range(count):
        top, left = torch.randint(7, SIZE - 7, (2,), generator=generator).tolist()
        radius = int(torch.randint(4, 8, (1,), generator=generator))
        if torch.rand(1, generator=generator) < discs:
            label = ((rows - top) ** 2 + (columns - left) ** 2 <= radius**2).long()
        else:
            label = 2 * (((rows - top).abs() < radius) & ((columns - left).abs() < radius)).long()
        images[number, 0] += (label == 1).float() - (label == 2).float()
        labels.append(label)
    return images, torch.stack(labels)


def main(steps: int = 120) -> dict[str, float]:
    """Print and return the mean intersection over union on both kinds, of one camera alone and of all together."""
    cameras = [pictures(60, discs, seed) for seed, discs in enumerate((0.95, 0.9, 0.1, 0.05))]
    test = pictures(80, 0.5, seed=99)
    found = {}
    for name, data, graph in (
        ("camera 0 alone", cameras[:1], cg.fully_connected(1)),
        ("together", cameras, cg.ring(4)),
    ):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 12, 5, padding=2), nn.ReLU(), nn.Conv2d(12, 12, 5, padding=2), nn.ReLU(), nn.Conv2d(12, 3, 1)
        )  # fmt: skip
        result = cg.fit(
            model, data, test=test, graph=graph, algorithm=cg.EDM(), lr=2.0, batch_size=8, steps=steps,
            task=tasks.Segmentation(classes=3), evaluate_every=steps, progress=False,
        )  # fmt: skip
        found[name] = result.records[-1].metrics["mean_iou"].averaged
        print(f"{name:15} mean IoU {found[name]:.1%}")
    return found


if __name__ == "__main__":
    main()
