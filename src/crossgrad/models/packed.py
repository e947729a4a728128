"""One agent's model and its floating buffers as bytes, for a site that has none of its own yet."""

import torch
from torch import Tensor

from crossgrad.models.buffers import Buffers


def pack_model(x_D: Tensor, buffers: Buffers, shared: int) -> bytes:
    """The first `shared` parameters of a model and the floating buffers of the first agent, without personal ones."""
    parts = (x_D[:shared], buffers.floats_NF[0, : buffers.shared])
    return b"".join(part.detach().cpu().contiguous().numpy().tobytes() for part in parts)


def unpack_model(content: bytes | bytearray, x_D: Tensor, buffers: Buffers, shared: int) -> tuple[Tensor, Tensor]:
    """The model and the floating buffers that `pack_model` made into bytes, with our own personal ones.

    Args:
        content: the bytes.
        x_D: a model of the same kind.
        buffers: buffers of the same kind.
        shared: how many parameters are not personal.

    Raises:
        ValueError: it is not a model of this kind, or has numbers that are not finite.
    """
    whole_D, whole_F = x_D, buffers.floats_NF[0]
    x_D, floats_F = whole_D[:shared], whole_F[: buffers.shared]
    split = x_D.nbytes
    if len(content) != split + floats_F.nbytes:
        raise ValueError(
            f"a neighbour's model has {len(content)} bytes; {split + floats_F.nbytes} were due. It is not used."
        )
    x = torch.frombuffer(bytearray(content[:split]), dtype=x_D.dtype).to(x_D.device)
    kept = floats_F
    if floats_F.nbytes:
        kept = torch.frombuffer(bytearray(content[split:]), dtype=floats_F.dtype).to(floats_F.device)
    if not bool(x.isfinite().all() and kept.isfinite().all()):
        raise ValueError("a neighbour's model must be finite; found other numbers. It is not used.")
    return torch.cat([x, whole_D[shared:]]), torch.cat([kept, whole_F[len(floats_F) :]])
