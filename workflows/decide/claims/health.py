"""The health of the devices that claims have, by what drivers said last, for `allocatedResourcesStatus` in pods' statuses.

The rules are those of pkg/kubelet/cm/dra: healthinfo.go (what was said counts for its timeout) and UpdateAllocatedResourcesStatus in manager.go
(what a container's status shows). The kubelet lists drivers and claims in any order, here always in the same one, so that a status does not
change by itself. A device of which nobody speaks any more is forgotten after its timeout, where a kubelet keeps it for ever.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.dra.claims import PreparedDevice
from proto.dra.device_health import DeviceHealth, DeviceKey
from proto.dra.pod_claims import ClaimUnknown, claim_name
from workflows.decide.claims.accounts import Accounts, ClaimAccount

NOT_KNOWN: Final = DeviceHealth()
HealthOf = Callable[[str, DeviceKey], DeviceHealth]
"""Returns the health of a driver's device now."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a driver said of a device, when, and by which of its plugins."""

    said: DeviceHealth
    at: float
    """Seconds on a monotonic clock."""
    source: object = None

    @property
    def until(self) -> float:
        """Until when it counts."""
        return self.at + self.said.timeout


DriverHealth = Mapping[DeviceKey, Told]
"""The devices of one driver."""


def reported(
    known: DriverHealth, devices: Mapping[DeviceKey, DeviceHealth], *, at: float, source: object, most: int
) -> DriverHealth:
    """Return what is known after a report: what it does not name counts for its timeout, as far as `most` devices allow."""
    named: dict[DeviceKey, Told] = {key: Told(said, at, source) for key, said in devices.items()}
    others = [(key, one) for key, one in known.items() if key not in named and one.until >= at]
    others.sort(key=lambda one: one[1].at, reverse=True)
    return {**dict(others[: max(0, most - len(named))]), **named}


def without(known: DriverHealth, source: object) -> DriverHealth:
    """Return what is known when the stream of a plugin has ended: what another one of its driver said counts."""
    return {key: one for key, one in known.items() if one.source is not source}


def current(known: DriverHealth, key: DeviceKey, now: float) -> DeviceHealth:
    """Return the health of a device: unknown, without a message, if nothing was said of it for its timeout."""
    told = known.get(key)
    return told.said if told and now <= told.until else NOT_KNOWN


def resources_status(
    accounts: Accounts, pod: Mapping[str, Any], container: str, health_of: HealthOf, *, with_messages: bool
) -> list[dict[str, Any]]:
    """Return the entries of one container of a pod for its claims; none if it has no devices of theirs."""
    namespace = str(pod["metadata"]["namespace"])
    entries: dict[str, dict[str, DeviceHealth]] = {}
    for use, name, request in _uses(pod, container):
        if (account := accounts.get((namespace, name))) is not None:
            devices = entries.setdefault(use, {})
            for driver, device in _devices(account, request):
                devices.setdefault(_resource_id(driver, device), health_of(driver, (device.pool, device.device)))
    return [
        {"name": use, "resources": [_entry(one, found, with_messages) for one, found in devices.items()]}
        for use, devices in entries.items()
        if devices
    ]


def _devices(account: ClaimAccount, request: str) -> Iterator[tuple[str, PreparedDevice]]:
    """List the devices that are for a request, or for all; of a subrequest those of its request (BaseRequestRef)."""
    for driver, devices in sorted(account.drivers.items()):
        for device in devices:
            if not request or not device.requests or request.partition("/")[0] in device.requests:
                yield driver, device


def _uses(pod: Mapping[str, Any], container: str) -> Iterator[tuple[str, str, str]]:
    """List what a container asks for: as its status calls it, the ResourceClaim's name, and the request."""
    nothing: Mapping[str, Any] = {}
    spec = next((one for one in pod["spec"].get("containers") or () if one["name"] == container), nothing)
    by_name = {one.get("name"): one for one in pod["spec"].get("resourceClaims") or ()}
    for asked in (spec.get("resources") or {}).get("claims") or ():
        name, request = str(asked.get("name", "")), str(asked.get("request") or "")
        try:
            claim = claim_name(pod, by_name[name]) if name in by_name else None
        except ClaimUnknown:
            continue
        if claim is not None:
            yield f"claim:{name}/{request}" if request else f"claim:{name}", claim, request


def _resource_id(driver: str, device: PreparedDevice) -> str:
    return device.cdi_device_ids[0] if device.cdi_device_ids else f"{driver}/{device.pool}/{device.device}"


def _entry(resource_id: str, found: DeviceHealth, with_messages: bool) -> dict[str, str]:  # noqa: FBT001 - a gate
    message = {"message": found.message} if with_messages and found.message else {}
    return {"resourceID": resource_id, "health": found.health, **message}
