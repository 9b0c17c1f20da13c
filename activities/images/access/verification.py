"""Decides whether a registry must be asked before a pod gets an image that is on the node; pure.

The kubelet's MustAttemptImagePull and its policies (pkg/kubelet/images/pullmanager). An image that was pulled with a
secret may be used by pods with the same login; others must have a login that the registry accepts.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from activities.images.access.image_names import InvalidImageName, without_tag
from activities.images.access.record_format import PulledRecord, Rights

MOST_REMEMBERED: Final = 100
"""Secrets of a record.

Beyond that, another one with the right login is not recorded (writeRecordWhileMatchingLimit).
"""


class VerificationPolicy(StrEnum):
    """KubeletConfiguration's imagePullCredentialsVerificationPolicy."""

    NEVER = "NeverVerify"
    NEVER_PRELOADED = "NeverVerifyPreloadedImages"
    NEVER_ALLOWLISTED = "NeverVerifyAllowlistedImages"
    ALWAYS = "AlwaysVerify"


class Standing(StrEnum):
    """Whether an image on the node may be used without a pull."""

    ALLOWED = "it may be used"
    DENIED = "the registry has to be asked"
    ASK_LOGINS = "that depends on the pod's logins"


@dataclass(frozen=True, slots=True)
class Verification:
    """The node's policy."""

    policy: VerificationPolicy = VerificationPolicy.NEVER_PRELOADED
    allowlist: tuple[str, ...] = ()
    """Image names without tag; one that ends in `/*` covers everything below it."""

    def is_required(self, image: str, *, pulled_here: bool) -> bool:
        """Report whether an image is verified; `pulled_here`: it was not loaded by other means."""
        match self.policy:
            case VerificationPolicy.NEVER:
                return False
            case VerificationPolicy.NEVER_PRELOADED:
                return pulled_here
            case VerificationPolicy.NEVER_ALLOWLISTED:
                return not any(_allows(pattern, name_of(image)) for pattern in self.allowlist)
            case VerificationPolicy.ALWAYS:
                return True


@dataclass(frozen=True, slots=True)
class Known:
    """What the records say about an image on the node."""

    record: PulledRecord | None = None
    intended: bool = False
    """A pull was started, and its outcome is unknown."""
    broken: bool = False
    """There is a record, and it cannot be read."""


def name_of(image: str) -> str:
    """Return the name under which an image's rights are recorded: as in the pod, without tag and digest."""
    try:
        return without_tag(image)
    except InvalidImageName:
        return image


def standing(verification: Verification, image: str, known: Known) -> Standing:
    """Judge an image on the node without the pod's logins."""
    if known.broken:
        return Standing.DENIED
    if not verification.is_required(image, pulled_here=known.record is not None or known.intended):
        return Standing.ALLOWED
    rights = known.record.rights.get(name_of(image)) if known.record else None
    if rights is None:
        return Standing.DENIED
    if rights.everyone:
        return Standing.ALLOWED
    return Standing.ASK_LOGINS if rights.secrets or rights.service_accounts else Standing.DENIED


def why_denied(image: str, known: Known) -> str:
    """Explain why the image on the node may not be used instead of a failed pull.

    Names no secret and no login, nor other names of the image: they may be repositories of another tenant.
    """
    names, own = known.record.rights if known.record else {}, name_of(image)
    if known.broken:
        how = "and the record of who pulled it cannot be read"
    elif own in names and not names[own].everyone:
        how = f"pulled with a login for {own}"
    elif names:
        how = "pulled by another name"
    elif known.record or known.intended:
        how = "and it is unknown with which credentials it was pulled"
    else:
        how = "and nothing says who pulled it"
    return f"the image is on this node, {how}: this pod has to show a right to it, by a login that the registry takes"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether what a pod has gives access to an image, and which of them is new."""

    allowed: bool
    remember: Rights | None = None


def judge(rights: Rights, shown: Rights) -> Verdict:
    """Compare what a pod has with what has pulled the image: the same login, the same secret with a new login, or the same account."""
    for own in shown.secrets:
        for known in rights.secrets:
            same_login = bool(known.hash) and own.hash == known.hash
            same_secret = own.is_same_secret(known)
            few = len(rights.secrets) < MOST_REMEMBERED
            if same_login or (same_secret and few):
                new = few and not (same_login and own == known)
                return Verdict(allowed=True, remember=Rights((own,)) if new else None)
    return Verdict(allowed=any(one in rights.service_accounts for one in shown.service_accounts))


def _allows(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("/*") else name == pattern
