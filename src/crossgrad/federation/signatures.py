"""Keys of sites and authorities, and what they sign: P-256 or P-384 keys by ECDSA, RSA keys by PKCS #1, with SHA-256.

These are the signatures of `openssl dgst -sha256 -sign KEY`.
"""

from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
CURVES = ("secp256r1", "secp384r1")
LEAST_RSA_BITS = 2048


class IdentityError(ValueError):
    """A key or certificate cannot be used; the text says why and what to do."""


def read_key(content: bytes, path: Path) -> PrivateKey:
    """The private key of a file in PEM form."""
    try:
        key = serialization.load_pem_private_key(content, None)
    except TypeError:
        raise IdentityError(
            f"{path} must be a key without a password, as a site starts with nobody there; it has one. Take it off: "
            f"openssl pkey -in {path} -out new.key"
        ) from None
    except ValueError:
        raise IdentityError(
            f"{path} must be a private key in PEM form; it is not. `crossgrad site init` makes one."
        ) from None
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in CURVES:
        return key
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size >= LEAST_RSA_BITS:
        return key
    raise IdentityError(
        f"{path} must be a key on the curve P-256 or P-384, or an RSA key of {LEAST_RSA_BITS} bits or more; found "
        f"{_described(key)}. `crossgrad site init` makes one."
    )


def sign(key: PrivateKey, text: bytes) -> bytes:
    """The signature of a text."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    return key.sign(text, ec.ECDSA(hashes.SHA256()))


def has_signed(public: Any, text: bytes, signature: bytes) -> bool:
    """Whether a signature of this text was made by the private part of a public key."""
    try:
        if isinstance(public, rsa.RSAPublicKey):
            public.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
        elif isinstance(public, ec.EllipticCurvePublicKey):
            public.verify(signature, text, ec.ECDSA(hashes.SHA256()))
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _described(key: Any) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return f"the curve {key.curve.name}"
    return f"RSA of {key.key_size} bits" if isinstance(key, rsa.RSAPrivateKey) else f"a {type(key).__name__}"
