"""Four agents, each with its own text, train one small transformer to write the next character, with AdamW.

Each agent holds the source of a module of Python's standard library. The loss is taken per token; padding at the end
of a text counts for nothing. Perplexity is measured on pieces that were held back from each agent, by the averaged
model.
"""

import importlib
import inspect

import torch
from torch import nn

import crossgrad as cg
from crossgrad import tasks

MODULES = ("textwrap", "heapq", "statistics", "configparser")
LENGTH, CHARACTERS = 48, 128  # of a piece; plain ASCII
IGNORED = -100  # label of positions that do not count


class Transformer(nn.Module):
    """Characters (n, T) to scores of the next one (n, T, 128)."""

    def __init__(self, width: int = 48, layers: int = 2) -> None:
        super().__init__()
        self.character, self.place = nn.Embedding(CHARACTERS, width), nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.scores = nn.Linear(width, CHARACTERS)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Each position sees those before it only."""
        T = characters.shape[1]
        seen = nn.Transformer.generate_square_subsequent_mask(T, device=characters.device)
        x = self.character(characters) + self.place(torch.arange(T, device=characters.device))
        return self.scores(self.layers(x, mask=seen, is_causal=True))


def pieces(module: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A module's source in pieces of equal length: characters, and for each of them the one that follows."""
    text = inspect.getsource(importlib.import_module(module)).encode("ascii", "replace")
    codes = torch.tensor(list(text))
    padded = torch.full((-(-len(codes) // LENGTH) * LENGTH + 1,), IGNORED)
    padded[: len(codes)] = codes
    following = padded[1:].reshape(-1, LENGTH)
    return padded[:-1].clamp(min=0).reshape(-1, LENGTH), following


def main(steps: int = 200) -> list[float]:
    """Print and return the perplexity of the averaged model, evaluation by evaluation."""
    torch.manual_seed(0)
    model = Transformer()
    texts = [pieces(module) for module in MODULES]
    result = cg.fit(
        model, texts, graph=cg.ring(len(texts)), algorithm=cg.TorchOptim(), lr=cg.WarmUp(0.1, cg.Cosine(3e-3)),
        task=tasks.TokenClassification(CHARACTERS), own_test=0.1, batch_size=16, steps=steps, clip_norm=1.0,
        evaluate_every=max(10, steps // 4), progress=False,
    )  # fmt: skip
    averaged = [record.metrics["perplexity_own"].averaged for record in result.records]
    for record, perplexity in zip(result.records, averaged, strict=True):
        print(f"step {record.step:4}: perplexity {perplexity:6.1f} of {CHARACTERS} characters")
    each = result.records[-1].metrics["perplexity_own"].agents
    print("own models: " + ", ".join(f"{module} {value:.1f}" for module, value in zip(MODULES, each, strict=True)))
    return averaged


if __name__ == "__main__":
    main()
