"""The average of the models that sites provide. Their folders come from elsewhere, so nothing in them is trusted."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from crossgrad._storage import atomic

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
MODEL = "model.safetensors"
MAX_HEADER_DIFFERENCE_BYTES = 1 << 20  # by which files of one model may differ in size: their headers


def average_models(folders: Sequence[Path], out: Path) -> None:
    """Write the mean of the models in these folders; integer tensors are taken from the first.

    Raises:
        ValueError: a model is missing, damaged, not finite, given twice or of another run.
    """
    paths = [folder / MODEL if folder.is_dir() else folder for folder in folders]
    places = [path.resolve() for path in paths]
    if twice := [str(folder) for folder, place in zip(folders, places, strict=True) if places.count(place) > 1]:
        raise ValueError(f"every site's model counts once; found {' and '.join(twice)}. Name each once.")
    if out.resolve() in places:
        raise ValueError(f"--out must be a new file; {out} is one of the models to average. Name another.")
    first = _model_in(paths[0], None)
    models = [first] + [_model_in(path, paths[0].stat().st_size + MAX_HEADER_DIFFERENCE_BYTES) for path in paths[1:]]
    for folder, model in zip(folders, models, strict=True):
        if _layout(model) != _layout(first):
            raise ValueError(
                f"models to average must be of one run; {folder} holds another model than {folders[0]}. Leave it out."
            )
    averaged = {name: _mean([model[name] for model in models]) for name in first}
    atomic.write(out, [save(averaged)])


def _layout(model: dict[str, Tensor]) -> dict[str, tuple[object, ...]]:
    """Type and shape of every tensor."""
    return {name: (value.dtype, *value.shape) for name, value in model.items()}


def _mean(values: list[Tensor]) -> Tensor:
    if values[0].dtype not in FLOATS:
        return values[0].clone()
    total = values[0].double()  # in which the sum of finite numbers of the other types is finite
    for value in values[1:]:
        total = total + value
    return (total / len(values)).to(values[0].dtype)


def _model_in(path: Path, max_bytes: int | None) -> dict[str, Tensor]:
    """The model in a file."""
    if not path.exists():
        raise ValueError(f"{path} must be a model; it is missing. A site writes it when its run ends.")
    with atomic.open_regular(path, follow=False) as file:
        content = file.read() if max_bytes is None else file.read(max_bytes + 1)
    if max_bytes is not None and len(content) > max_bytes:
        raise ValueError(f"{path} must be as large as the first model; it is larger. Leave it out.")
    try:
        model: dict[str, Tensor] = load(content)
    except (SafetensorError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise ValueError(
            f"{path} must be a model as a site writes it; it is not ({error}). Ask for it again."
        ) from None
    known = {name: value for name, value in model.items() if value.dtype in (*FLOATS, *WHOLE)}
    if not model or len(known) < len(model):
        raise ValueError(
            f"{path} must have tensors of floating-point or whole numbers; it has none, or others. Leave it out."
        )
    if bad := sorted(name for name, value in model.items() if not value.isfinite().all()):
        raise ValueError(f"{path} must have finite numbers only; {bad[0]!r} has others. Leave it out.")
    return model
