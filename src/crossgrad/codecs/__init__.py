"""How a message is encoded: exactly, or compressed with error feedback."""

from crossgrad._registry.entries import as_class
from crossgrad._registry.registry import Registry
from crossgrad.codecs.codec import Codec, Exact, ScaledSign, StatesError
from crossgrad.codecs.dither import random_bits
from crossgrad.codecs.quantised import Quantised
from crossgrad.codecs.sparse import RandomK, TopK

_BUILT_IN: dict[str, type] = {
    "exact": Exact,
    "scaled-sign": ScaledSign,
    "quantised": Quantised,
    "top-k": TopK,
    "random-k": RandomK,
}

CODECS: Registry[type] = Registry(
    "codec", _BUILT_IN, lambda name, thing: as_class("codec", name, thing, ("encode", "decode", "kind", "feedback"))
)

__all__ = ["CODECS", "Codec", "Exact", "Quantised", "RandomK", "ScaledSign", "StatesError", "TopK", "random_bits"]
