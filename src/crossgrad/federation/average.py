"""The average of the models that sites provide."""

from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import load, save
from torch import Tensor

from crossgrad._storage import atomic

MODEL = "model.safetensors"


def average_models(folders: Sequence[Path], out: Path) -> None:
    """Write the mean of the models in these folders; integer tensors are taken from the first."""
    models = [_read(folder / MODEL if folder.is_dir() else folder) for folder in folders]
    first = models[0]
    for folder, other in zip(folders, models, strict=True):
        shapes, expected = ({name: tuple(value.shape) for name, value in model.items()} for model in (other, first))
        if shapes != expected:
            raise ValueError(f"{folder} holds another model than {folders[0]}: only models of one run can be averaged.")
    averaged = {name: _mean([model[name] for model in models]) for name in first}
    atomic.write(out, [save(averaged)])


def _mean(values: list[Tensor]) -> Tensor:
    if not values[0].is_floating_point():
        return values[0].clone()
    total = values[0].clone()
    for value in values[1:]:
        total += value
    return total / len(values)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.exists():
        raise ValueError(f"{path} is missing: a site writes it when its run ends.")
    try:
        return load(path.read_bytes())
    except Exception as error:
        raise ValueError(f"{path} is no model: {error}.") from None
