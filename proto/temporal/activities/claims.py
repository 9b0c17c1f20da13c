"""Requests of preparing a pod's ResourceClaims and of undoing it, and what was prepared: for `tempolet history` alone, nothing is decided by it."""

from dataclasses import dataclass

from proto.temporal.pod import PodJson, PodKey


@dataclass(frozen=True, slots=True)
class PrepareResources:
    """Have drivers prepare all claims of a pod; those that are prepared already are found."""

    pod: PodKey
    pod_spec: PodJson
    """What tells the pod's claims (proto/dra/pod_claims.py claims_slice)."""
    sandbox_attempt: int = 0
    """The sandbox that they are prepared for: a new one may come after a reboot, which loses everything."""


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device that a driver has prepared for a claim."""

    claim: str
    driver: str
    pool: str = ""
    device: str = ""
    requests: tuple[str, ...] = ()
    """The requests of the claim that it is for; empty: for all."""


@dataclass(frozen=True, slots=True)
class PreparedResources:
    """The devices of a pod's claims, as many as a story tells."""

    devices: tuple[ClaimedDevice, ...] = ()
    more: int = 0
    """How many others there are."""


@dataclass(frozen=True, slots=True)
class UnprepareResources:
    """Have drivers undo the claims that no other pod uses; a pod without prepared claims counts as undone."""

    pod: PodKey
