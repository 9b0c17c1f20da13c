"""Judges a ResourceClaim object: whether a pod may use it, and which drivers are to prepare it (manager.go prepareResources)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.dra.claims import Claim
from proto.dra.pod_claims import NamedClaim
from proto.messages import shorten
from proto.temporal.pod import PodKey

MOST_DRIVERS: Final = 32
"""Of one claim: it has at most 32 devices in the API."""


class ClaimRefused(Exception):
    """A pod cannot use a claim now; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """A claim that is allocated, and the drivers that prepare it."""

    claim: Claim
    drivers: tuple[str, ...]


def allocated(pod: PodKey, named: NamedClaim, found: Mapping[str, Any]) -> AllocatedClaim:
    """Read a claim's object for a pod; raises ClaimRefused."""
    metadata, status = found.get("metadata") or {}, found.get("status") or {}
    claim = Claim(str(metadata.get("namespace", "")), str(metadata.get("name", "")), str(metadata.get("uid", "")))
    if named.is_made_for_pod and not _is_controlled_by(metadata, pod):
        raise ClaimRefused(
            f"ResourceClaim {claim.namespace}/{claim.name} was not created for Pod {pod.namespace}/{pod.name} (Pod is not owner)"
        )
    if not any(one.get("uid") == pod.uid for one in status.get("reservedFor") or ()):
        raise ClaimRefused(
            f"pod {pod.name} ({pod.uid}) is not allowed to use ResourceClaim {named.name} ({shorten(claim.uid)})"
        )
    if (allocation := status.get("allocation")) is None:
        raise ClaimRefused(f"ResourceClaim {claim.name}: not allocated")
    results = (allocation.get("devices") or {}).get("results") or ()
    drivers = tuple(sorted({str(one.get("driver", "")) for one in results}))
    if len(drivers) > MOST_DRIVERS:
        raise ClaimRefused(f"ResourceClaim {claim.name}: it has devices of more than {MOST_DRIVERS} drivers")
    return AllocatedClaim(claim, drivers)


def _is_controlled_by(metadata: Mapping[str, Any], pod: PodKey) -> bool:
    owners = metadata.get("ownerReferences") or ()
    return any(one.get("controller") is True and one.get("uid") == pod.uid for one in owners)
