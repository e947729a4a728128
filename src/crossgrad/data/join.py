"""Several agents' samples as one data set."""

from collections.abc import Sequence

import numpy as np
import torch

from crossgrad.data.lazy import LazySamples
from crossgrad.data.nested import mapped
from crossgrad.data.types import Samples


def joined(parts: Sequence[Samples]) -> Samples:
    """All samples of the parts, one part after the other; parts of one data set that is read when needed stay so.

    Args:
        parts: samples of one layout.

    >>> one, other = (Samples.of((torch.eye(2), torch.tensor(labels))) for labels in ([0, 1], [2, 3]))
    >>> joined([one, other]).labels
    tensor([0, 1, 2, 3])
    """
    if len({id(part) for part in parts}) == 1:
        return parts[0]
    lazy = [part for part in parts if isinstance(part, LazySamples)]
    if len(lazy) == len(parts) and len({id(part.source) for part in lazy}) == 1:
        indices = np.concatenate([part.indices for part in lazy])
        return LazySamples(lazy[0].source, lazy[0].workers, indices=indices, placement=lazy[0].placement)
    loaded = [part.loaded() for part in parts]
    inputs, labels = [part.inputs for part in loaded], [part.labels for part in loaded]
    return Samples(mapped(lambda *each: torch.cat(each), *inputs), mapped(lambda *each: torch.cat(each), *labels))
