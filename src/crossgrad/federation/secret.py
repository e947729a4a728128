"""The secret seed of the noise on a site's gradients, which no other site has.

The experiment's seed is in a file that all sites have: noise drawn from it could be subtracted by any neighbour.
"""

import os
import secrets
from pathlib import Path

from crossgrad._gradients.private import PrivateOracle
from crossgrad._training.trainer import Training

NOISE_KEY_FILE = "noise.key"  # in the folder of a site's run
BITS = 256


def secret_of(folder: Path) -> int | None:
    """The secret of a run's folder; None if there is none."""
    path = folder / NOISE_KEY_FILE
    if not path.exists():
        return None
    try:
        return int(path.read_text(), 16)
    except ValueError:
        raise ValueError(
            f"{path} must hold a hexadecimal number, as the run wrote it; it does not. Restore it."
        ) from None


def secret_advice(folder: Path) -> str:
    """What to keep in mind before a run's folder is handed over; empty where there is no secret."""
    return f"; keep its {NOISE_KEY_FILE} to yourself" if (folder / NOISE_KEY_FILE).exists() else ""


def make_secret(folder: Path) -> int:
    """The secret of a run's folder: drawn at its first start, and kept so that the run can be resumed and repeated."""
    known = secret_of(folder)
    if known is not None:
        return known
    drawn = secrets.randbits(BITS)
    descriptor = os.open(folder / NOISE_KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{drawn:x}\n")
        file.flush()
        os.fsync(file.fileno())
    return drawn


def use_secret(training: Training, secret: int | None) -> None:
    """Draw the noise of a training from this secret, if it has noise."""
    if secret is not None and isinstance(training.oracle, PrivateOracle):
        training.oracle.secret = secret
