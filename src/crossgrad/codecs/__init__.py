"""How a message is encoded: exactly, or compressed with error feedback."""

from crossgrad.codecs.codec import CODECS, Codec, Exact, ScaledSign

__all__ = ["CODECS", "Codec", "Exact", "ScaledSign"]
