"""How a message is encoded: exactly, or compressed with error feedback."""

from crossgrad.codecs.codec import Codec, Exact, ScaledSign
from crossgrad.codecs.quantised import Quantised
from crossgrad.codecs.sparse import RandomK, TopK

CODECS: dict[str, type] = {
    "exact": Exact,
    "scaled-sign": ScaledSign,
    "quantised": Quantised,
    "top-k": TopK,
    "random-k": RandomK,
}

__all__ = ["CODECS", "Codec", "Exact", "Quantised", "RandomK", "ScaledSign", "TopK"]
