"""Whether pods must show that they may use an image that is present: three keys and a gate of KubeletConfiguration.

The rules are those of apis/config/validation/validation.go, the patterns those of
images/pullmanager/image_pull_policies.go.
"""

from collections.abc import Iterator
from typing import Final

from activities.images.access.image_names import InvalidImageName, without_tag
from activities.images.access.verification import Verification, VerificationPolicy
from worker.settings.kubelet.configuration import KubeletConfiguration
from worker.settings.kubelet.feature_gates import VERIFICATION_GATE, FeatureGates

POLICY: Final = "imagePullCredentialsVerificationPolicy"
ALLOWLIST: Final = "preloadedImagesVerificationAllowlist"


def verification(kubelet: KubeletConfiguration, gates: FeatureGates) -> Verification | None:
    """Read the policy; None if the gate is off and nothing is verified."""
    if not gates.enabled(VERIFICATION_GATE):
        return None
    said = kubelet[POLICY]
    policy = VerificationPolicy(said) if said else VerificationPolicy.NEVER_PRELOADED
    return Verification(policy, tuple(kubelet[ALLOWLIST] or ()))


def verification_breaches(kubelet: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    """List what is invalid: an unknown policy, a list that the policy ignores, a malformed pattern."""
    policy, allowlist = str(kubelet[POLICY] or ""), kubelet[ALLOWLIST] or ()
    if not gates.enabled(VERIFICATION_GATE):
        for key in (POLICY, ALLOWLIST):
            if key in kubelet.said and kubelet[key]:
                yield f"{key}: needs the feature gate {VERIFICATION_GATE}, which is off"
        return
    if policy and policy not in set(VerificationPolicy):
        yield f"{POLICY}: {policy!r}, but it is {', '.join(VerificationPolicy)}"
    if allowlist and policy != VerificationPolicy.NEVER_ALLOWLISTED:
        yield f"{ALLOWLIST}: only with {POLICY}: {VerificationPolicy.NEVER_ALLOWLISTED}"
    for index, pattern in enumerate(allowlist):
        if fault := _fault(pattern):
            yield f"{ALLOWLIST}[{index}]: {pattern!r}: {fault}"


def _fault(pattern: str) -> str:
    """Return what is wrong with a pattern; empty if nothing is."""
    plain = pattern[:-1] if pattern.endswith("/*") else pattern
    if pattern != pattern.strip():
        return "leading and trailing spaces are not allowed"
    if not plain:
        return "it is too short"
    if "*" in plain:
        return "not a valid wildcard pattern, only patterns ending with '/*' are allowed"
    if pattern.endswith("/*"):
        return "at least a registry's hostname is required" if plain == "/" else ""
    try:
        return "" if without_tag(plain) == plain else "neither tag nor digest is accepted in an image reference"
    except InvalidImageName as error:
        return str(error)
