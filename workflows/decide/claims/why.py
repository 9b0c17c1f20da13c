"""Which devices the claims of a pod gave to each of its containers, and why, in sentences for `tempolet explain`; pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.dra.claims import PreparedDevice
from proto.dra.pod_claims import ClaimUnknown, ClaimUse, container_uses
from proto.messages import shorten
from workflows.decide.claims.accounts import Accounts, ClaimAccount

MOST_SENTENCES: Final = 64
"""Of one pod: it may have 256 claims."""
MOST_DEVICES: Final = 16
"""In one sentence."""


def why_devices(accounts: Accounts, pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Say which devices each container has by its pod's claims, or that a claim has none yet."""
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    found = [shorten(one) for container in containers for one in _of_container(accounts, pod, container)]
    more = len(found) - MOST_SENTENCES
    return (*found[:MOST_SENTENCES], *([f"and {more} more uses of claims"] if more > 0 else ()))


def _of_container(accounts: Accounts, pod: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    name, uid = container["name"], pod["metadata"]["uid"]
    try:
        uses = container_uses(pod, container)
    except ClaimUnknown as error:
        yield f"container {name} has no device of a claim yet: {error}"
        return
    for use in dict.fromkeys(uses):
        account = accounts.get((str(pod["metadata"]["namespace"]), use.claim))
        if account is None or uid not in account.pods:
            yield f"container {name} has no device of {_claim(use)} yet: it is not prepared for the pod"
        else:
            yield f"container {name} has {_devices(account, use)}: {_why(account, use)}"


def _devices(account: ClaimAccount, use: ClaimUse) -> str:
    found = [
        _words(driver, device)
        for driver, devices in sorted(account.drivers.items())
        for device in devices
        if not use.request or not device.requests or use.request in device.requests
    ]
    if not found:
        return f"no device: {', '.join(sorted(account.drivers)) or 'no driver'} has prepared none"
    return ", ".join(found[:MOST_DEVICES]) + (f" and {len(found) - MOST_DEVICES} more" if found[MOST_DEVICES:] else "")


def _words(driver: str, device: PreparedDevice) -> str:
    shared = f" (share {device.share_id})" if device.share_id else ""
    return f"device {device.device} of pool {device.pool} of driver {driver}{shared}"


def _why(account: ClaimAccount, use: ClaimUse) -> str:
    others = len(account.pods) - 1
    shared = f", which {others} other pod{'s' if others > 1 else ''} of this node use{'' if others > 1 else 's'}, too"
    return (
        f"it asks for {_claim(use)}{shared if others else ''}; the scheduler chose from the ResourceSlices of this node"
    )


def _claim(use: ClaimUse) -> str:
    return f"request {use.request} of ResourceClaim {use.claim}" if use.request else f"ResourceClaim {use.claim}"
