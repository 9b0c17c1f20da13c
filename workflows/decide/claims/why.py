"""Which devices the claims of a pod gave to each of its containers, why, and which of them are not healthy, in sentences for `tempolet explain`; pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from proto.dra.claims import PreparedDevice
from proto.dra.device_health import UNHEALTHY
from proto.dra.pod_claims import ClaimUnknown, ClaimUse, container_uses
from proto.messages import shorten
from workflows.decide.claims.accounts import Accounts, ClaimAccount
from workflows.decide.claims.health import HealthOf

MOST_SENTENCES: Final = 64
"""Of one pod: it may have 256 claims."""
MOST_DEVICES: Final = 16
"""In one sentence."""


def why_devices(accounts: Accounts, pod: Mapping[str, Any], over: Collection[str] = ()) -> tuple[str, ...]:
    """Say which devices each container has by its pod's claims, or that a claim has none yet; nothing of containers that are over."""
    said = (one for container in _containers(pod, over) for one in _of_container(accounts, pod, container))
    return _first(said, "uses of claims")


def unhealthy_claimed(
    accounts: Accounts, pod: Mapping[str, Any], health_of: HealthOf, over: Collection[str] = ()
) -> tuple[str, ...]:
    """Say which of these devices are not healthy by their drivers, and in which words of theirs."""
    said = (one for container in _containers(pod, over) for one in _unhealthy(accounts, pod, container, health_of))
    return _first(said, "devices that are not healthy")


def _containers(pod: Mapping[str, Any], over: Collection[str]) -> list[Mapping[str, Any]]:
    spec = pod["spec"]
    everyone = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return [one for one in everyone if one["name"] not in over]


def _first(said: Iterable[str], what: str) -> tuple[str, ...]:
    found = [shorten(one) for one in said]
    more = len(found) - MOST_SENTENCES
    return (*found[:MOST_SENTENCES], *([f"and {more} more {what}"] if more > 0 else ()))


def _of_container(accounts: Accounts, pod: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    name = container["name"]
    try:
        uses = container_uses(pod, container)
    except ClaimUnknown as error:
        yield f"container {name} has no device of a claim yet: {error}"
        return
    for use in dict.fromkeys(uses):
        if (account := _prepared(accounts, pod, use)) is None:
            yield f"container {name} has no device of {_claim(use)} yet: it is not prepared for the pod"
        elif found := [_words(*one) for one in _given(account, use)]:
            yield f"container {name} has {_listed(found)}: allocated for {_claim(use)}{_shared(account)}"
        else:
            yield f"container {name} has no device of {_claim(use)}: none is prepared by {', '.join(sorted(account.drivers)) or 'any driver'}"


def _unhealthy(
    accounts: Accounts, pod: Mapping[str, Any], container: Mapping[str, Any], health_of: HealthOf
) -> Iterator[str]:
    try:
        uses = container_uses(pod, container)
    except ClaimUnknown:
        return
    accounted = [(account, use) for use in uses if (account := _prepared(accounts, pod, use))]
    for driver, device in dict.fromkeys(one for account, use in accounted for one in _given(account, use)):
        health = health_of(driver, (device.pool, device.device))
        if health.health == UNHEALTHY:
            why = f": {health.message}" if health.message else ""
            yield f"container {container['name']}: {_words(driver, device)}: not healthy{why}"


def _prepared(accounts: Accounts, pod: Mapping[str, Any], use: ClaimUse) -> ClaimAccount | None:
    """Return a claim's account, if the pod uses it."""
    account = accounts.get((str(pod["metadata"]["namespace"]), use.claim))
    return account if account and pod["metadata"]["uid"] in account.pods else None


def _given(account: ClaimAccount, use: ClaimUse) -> Iterator[tuple[str, PreparedDevice]]:
    for driver, devices in sorted(account.drivers.items()):
        for one in devices:
            if not use.request or not one.requests or use.request in one.requests:
                yield driver, one


def _listed(devices: list[str]) -> str:
    more = len(devices) - MOST_DEVICES
    return ", ".join(devices[:MOST_DEVICES]) + (f" and {more} more" if more > 0 else "")


def _words(driver: str, device: PreparedDevice) -> str:
    shared = f" (share {device.share_id})" if device.share_id else ""
    return f"device {device.device} of pool {device.pool} of driver {driver}{shared}"


def _shared(account: ClaimAccount) -> str:
    others = len(account.pods) - 1
    if not others:
        return ""
    return f", which {others} other pod{'s' if others > 1 else ''} of this node use{'' if others > 1 else 's'}, too"


def _claim(use: ClaimUse) -> str:
    return f"request {use.request} of ResourceClaim {use.claim}" if use.request else f"ResourceClaim {use.claim}"
