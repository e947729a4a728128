"""Guards against neighbours: robust rules in place of the average, attacks to try them with, and private gradients."""

from crossgrad._registry.entries import as_class
from crossgrad._registry.registry import Registry
from crossgrad.guards.attacks import Attack
from crossgrad.guards.privacy import GaussianNoise, PrivacyGuard
from crossgrad.guards.robust import CoordinateMedian, NormClipping, RobustRule, SelfCentredClipping, TrimmedMean

_BUILT_IN: dict[str, type] = {
    "self-centred-clipping": SelfCentredClipping,
    "norm-clipping": NormClipping,
    "coordinate-median": CoordinateMedian,
    "trimmed-mean": TrimmedMean,
}

ROBUST_RULES: Registry[type] = Registry(
    "robust-rule", _BUILT_IN, lambda name, thing: as_class("robust-rule", name, thing, ("__call__",))
)

PRIVACY_GUARDS: Registry[type] = Registry(
    "privacy-guard",
    {"gaussian-noise": GaussianNoise},
    lambda name, thing: as_class("privacy-guard", name, thing, ("add_noise_", "check", "epsilon")),
)

__all__ = [
    "PRIVACY_GUARDS",
    "ROBUST_RULES",
    "Attack",
    "CoordinateMedian",
    "GaussianNoise",
    "NormClipping",
    "PrivacyGuard",
    "RobustRule",
    "SelfCentredClipping",
    "TrimmedMean",
]
