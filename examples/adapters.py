"""Four agents adapt a frozen transformer with low-rank adapters: only the adapters are sent.

A small transformer is trained first, by its owner, to sort digits in ascending order. Then it is frozen, each linear
layer gets an adapter x A B of rank 4 (Hu et al.: LoRA, 2021, arXiv:2106.09685), and four agents, who hold different
sequences, teach it together to sort in descending order. Parameters that do not require gradients are never
sent.
"""

import torch
from torch import nn

import crossgrad as cg
from crossgrad import tasks

DIGITS, LENGTH = 10, 6


class Block(nn.Module):
    """Attention and two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As in the usual transformer, with the norms in front."""
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.narrow(torch.relu(self.wide(self.second(x))))


class Sorter(nn.Module):
    """Sequences of digits (n, T) to scores of the sorted ones (n, T, 10)."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.digit, self.place = nn.Embedding(DIGITS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.scores = nn.Linear(width, DIGITS)

    def forward(self, digits: torch.Tensor) -> torch.Tensor:
        """The scores of each place."""
        return self.scores(self.blocks(self.digit(digits) + self.place.weight))


class Adapted(nn.Module):
    """A frozen linear layer plus a trainable one of low rank, which is zero at the start."""

    def __init__(self, linear: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.linear = linear
        self.A = nn.Parameter(torch.randn(linear.in_features, rank) / linear.in_features**0.5)
        self.B = nn.Parameter(torch.zeros(rank, linear.out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """linear(x) + x A B."""
        return self.linear(x) + x @ self.A @ self.B


def adapted(model: Sorter) -> Sorter:
    """The model, frozen but for the adapters that it gets."""
    model.requires_grad_(False)
    for block in model.blocks:
        block.wide, block.narrow = Adapted(block.wide), Adapted(block.narrow)
    model.scores = Adapted(model.scores)
    return model


def sequences(
    count: int, descending: bool, seed: int, favourite: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random digits, half of them the favourite one if there is one, and the same digits sorted."""
    generator = torch.Generator().manual_seed(seed)
    digits = torch.randint(DIGITS, (count, LENGTH), generator=generator)
    if favourite is not None:
        digits[torch.rand(count, LENGTH, generator=generator) < 0.5] = favourite
    return digits, digits.sort(dim=1, descending=descending).values


def main(owner_steps: int = 400, steps: int = 200) -> dict[str, float]:
    """Print and return what is sent, and how well the adapted model sorts in descending order."""
    torch.manual_seed(0)
    task, common = tasks.TokenClassification(DIGITS), {"batch_size": 32, "progress": False}
    adam = cg.TorchOptim()
    alone, test = cg.fully_connected(1), sequences(300, True, seed=99)
    known = cg.fit(
        Sorter(), [sequences(4000, False, seed=1)], graph=alone, algorithm=adam, lr=3e-3, task=task, steps=owner_steps,
        **common,
    ).model  # fmt: skip
    agents = [sequences(500, True, seed=10 + j, favourite=2 * j) for j in range(4)]
    whole = sum(p.numel() for p in known.parameters())
    model = adapted(known)
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    result = cg.fit(
        model, agents, test=test, graph=cg.ring(4), algorithm=adam, lr=1e-2, task=task, steps=steps,
        evaluate_every=steps, **common,
    )  # fmt: skip
    first, last = result.records[0], result.records[-1]
    sent = last.bytes_sent / 4 / steps
    print(f"parameters: {whole:,} in the frozen model, {trainable:,} in the adapters")
    print(f"sent per agent and step: {sent:,.0f} bytes = 2 neighbours x {trainable:,} x 4")
    print(f"digits in the right place: {first.accuracy:.1%} before, {last.accuracy:.1%} after {steps} steps")
    return {"sent": sent, "trainable": trainable, "before": first.accuracy, "after": last.accuracy}


if __name__ == "__main__":
    main()
