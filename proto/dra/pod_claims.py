"""Which ResourceClaims a pod and each of its containers use, from the pod's spec and from what others wrote into its status; pure.

A claim that the pod names itself is known from its spec. One that is made from a template, and the one that the scheduler makes for
extended resources, are named in the status (dynamic-resource-allocation/resourceclaim.Name).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.kubernetes.go_quote import go_quoted
from proto.kubernetes.resources.quantity import QuantityError, parse_quantity
from proto.messages import shorten

STATUS_FIELDS: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus")


class ClaimUnknown(Exception):
    """A claim's name is not known yet; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A ResourceClaim that a pod uses."""

    name: str
    is_made_for_pod: bool = False
    """It was made from a template, so the pod must be its owner."""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """What a container uses of a claim."""

    claim: str
    request: str = ""
    """A request of the claim; empty: all."""


def uses_claims(pod: Mapping[str, Any]) -> bool:
    """Report whether a pod uses claims."""
    return bool(pod["spec"].get("resourceClaims")) or _extended(pod) is not None


def claims_slice(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Cut what tells a pod's claims."""
    status = pod.get("status") or {}
    metadata = {field: pod["metadata"][field] for field in ("namespace", "name", "uid")}
    return {
        "metadata": metadata,
        "spec": {"resourceClaims": pod["spec"].get("resourceClaims") or []},
        "status": {field: status[field] for field in STATUS_FIELDS if status.get(field)},
    }


def named_claims(pod: Mapping[str, Any]) -> tuple[NamedClaim, ...]:
    """List a pod's claims; one that was deliberately not made is left out. Raises ClaimUnknown."""
    found = [_named(pod, one) for one in pod["spec"].get("resourceClaims") or ()]
    extended = _extended(pod)
    return (
        *(one for one in found if one),
        *([NamedClaim(str(extended["resourceClaimName"]))] if extended is not None else ()),
    )


def container_uses(pod: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[ClaimUse, ...]:
    """List what a container uses of claims, in the kubelet's order (manager.go GetResources). Raises ClaimUnknown."""
    asked = (container.get("resources") or {}).get("claims") or ()
    found: list[ClaimUse] = []
    for pod_claim in pod["spec"].get("resourceClaims") or ():
        requests = [str(one.get("request") or "") for one in asked if one.get("name") == pod_claim.get("name")]
        if requests and (claim := _named(pod, pod_claim)):
            found += [ClaimUse(claim.name, request) for request in requests]
    return (*found, *_extended_uses(pod, container))


def container_claims(pod: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[str, ...]:
    """List the names of the claims of which a container uses something, in the kubelet's order (manager.go GetContainerClaimInfos). Raises ClaimUnknown."""
    asked = {one.get("name") for one in (container.get("resources") or {}).get("claims") or ()}
    used = (one for one in pod["spec"].get("resourceClaims") or () if one.get("name") in asked)
    found = [name for one in used if (name := claim_name(pod, one)) is not None]
    if (extended := _extended(pod)) is not None and any(
        one.get("containerName") == container["name"] for one in extended.get("requestMappings") or ()
    ):
        found.append(str(extended["resourceClaimName"]))
    return tuple(found)


def claim_name(pod: Mapping[str, Any], pod_claim: Mapping[str, Any]) -> str | None:
    """Return the ResourceClaim's name of an entry in `spec.resourceClaims`; None if it was deliberately not made. Raises ClaimUnknown."""
    claim = _named(pod, pod_claim)
    return claim.name if claim else None


def _named(pod: Mapping[str, Any], pod_claim: Mapping[str, Any]) -> NamedClaim | None:
    """Return a claim; None for one that was deliberately not made."""
    metadata = pod["metadata"]
    who = f'pod "{metadata["namespace"]}/{metadata["name"]}"'
    if (name := pod_claim.get("resourceClaimName")) is not None:
        return NamedClaim(str(name))
    if pod_claim.get("resourceClaimTemplateName") is None:
        claim = go_quoted(str(pod_claim.get("name", "")))
        raise ClaimUnknown(f"{who}, spec.resourceClaim {shorten(claim)}: none of the supported fields are set")
    for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if one.get("name") == pod_claim.get("name"):
            made = one.get("resourceClaimName")
            return None if made is None else NamedClaim(str(made), is_made_for_pod=True)
    raise ClaimUnknown(f"{who}: ResourceClaim not created yet")


def without_claimed(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod without the extended resources that its claim serves: no device plugin gives them, and the node need not have them.

    As isDRAExtendedResource in pkg/kubelet/cm/devicemanager, and removeMissingExtendedResources in pkg/kubelet/lifecycle.
    """
    if _extended(pod) is None:
        return pod
    spec = dict(pod["spec"])
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [container_without_claimed(pod, one) for one in spec[kind]]
    return {**pod, "spec": spec}


def container_without_claimed(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return one container of a pod likewise; of the pod only its status is read."""
    mapped = (_extended(pod) or {}).get("requestMappings") or ()
    claimed = {one.get("resourceName") for one in mapped if one.get("containerName") == container["name"]}
    return _without(container, claimed)


def _without(container: Mapping[str, Any], resources: Collection[str]) -> Mapping[str, Any]:
    given = container.get("resources") or {}
    lists = {
        kind: {name: amount for name, amount in (given.get(kind) or {}).items() if name not in resources}
        for kind in ("requests", "limits")
        if kind in given
    }
    return {**container, "resources": {**given, **lists}} if resources else container


def _extended(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    return found if found and found.get("resourceClaimName") else None


def _extended_uses(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[ClaimUse]:
    """List the requests that the scheduler made of a container's extended resources."""
    if (extended := _extended(pod)) is None:
        return
    wanted = (container.get("resources") or {}).get("requests") or {}
    for one in extended.get("requestMappings") or ():
        if one.get("containerName") == container["name"] and _is_more_than_none(wanted.get(one.get("resourceName"))):
            yield ClaimUse(str(extended["resourceClaimName"]), str(one.get("requestName") or ""))


def _is_more_than_none(amount: Any) -> bool:
    try:
        return amount is not None and bool(parse_quantity(amount))
    except QuantityError:
        return False
