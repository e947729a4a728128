"""Models known by name: the paper's and two small ones. Any `nn.Module` of your own serves just as well."""

from crossgrad.models.zoo import MLP, MODELS, VGG11, Linear, Model, PaperCNN, ReleasedCNN, build

__all__ = ["MLP", "MODELS", "VGG11", "Linear", "Model", "PaperCNN", "ReleasedCNN", "build"]
