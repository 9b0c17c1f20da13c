"""Which claims are prepared on this node, by which drivers with which devices, and for which pods (claiminfo.go)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from proto.dra.claims import Claim, PreparedDevice
from proto.dra.pod_claims import ClaimUse
from proto.temporal.activities.claims import ClaimedDevice, PreparedResources
from workflows.decide.claims.allocated import AllocatedClaim, ClaimRefused

MOST_TOLD: Final = 32
"""Devices in a pod's history, and requests of each: a claim has at most so many in the API."""
LONGEST_TOLD: Final = 253
ANY_DRIVER: Final = "<any>"
Key = tuple[str, str]
"""Namespace and name."""


class ClaimNotPrepared(ValueError):
    """A container's claim is not known here; the message is the kubelet's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAccount:
    """One claim, from before its drivers are asked until all of them have undone it."""

    claim: Claim
    pods: frozenset[str] = frozenset()
    """The uids of the pods that use it."""
    drivers: Mapping[str, tuple[PreparedDevice, ...]] = field(default_factory=dict)
    """The devices of each driver; none before it has prepared them."""
    is_prepared: bool = False
    """All drivers have prepared it since this process began; after a restart they are asked again."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.claim.namespace, self.claim.name


Accounts = Mapping[Key, ClaimAccount]


def with_pod(accounts: Accounts, allocated: AllocatedClaim, pod_uid: str) -> ClaimAccount:
    """Return a claim's account with a pod that uses it; raises ClaimRefused for an older claim of that name."""
    claim = allocated.claim
    known = accounts.get((claim.namespace, claim.name))
    if known is None:
        known = ClaimAccount(claim=claim, drivers=dict.fromkeys(allocated.drivers, ()))
    elif known.claim.uid != claim.uid:
        raise ClaimRefused(
            f"old ResourceClaim with same name {claim.name} and different UID {known.claim.uid} still exists "
            "(previous pod force-deleted?!)"
        )
    return replace(known, pods=known.pods | {pod_uid})


def used_by(accounts: Accounts, pod_uid: str) -> tuple[ClaimAccount, ...]:
    """List the claims that a pod uses."""
    return tuple(one for one in accounts.values() if pod_uid in one.pods)


def orphans(accounts: Accounts, present: Collection[str]) -> tuple[str, ...]:
    """List the uids of pods that have claims and are not on this node any more."""
    return tuple(sorted({uid for one in accounts.values() for uid in one.pods} - set(present)))


def by_driver(accounts: Iterable[ClaimAccount]) -> dict[str, tuple[Claim, ...]]:
    """Sort claims by the drivers that are to be asked for them, so that each is asked once for all."""
    batches: dict[str, tuple[Claim, ...]] = {}
    for one in accounts:
        for driver in one.drivers:
            batches[driver] = (*batches.get(driver, ()), one.claim)
    return batches


def cdi_devices(accounts: Accounts, namespace: str, uses: Iterable[ClaimUse]) -> tuple[str, ...]:
    """List the CDI devices that a container gets for its claims; raises ClaimNotPrepared."""
    found: dict[str, None] = {}
    for use in uses:
        if (account := accounts.get((namespace, use.claim))) is None:
            raise ClaimNotPrepared(
                f"internal error: unable to get claim info for ResourceClaim {use.claim} in namespace {namespace}"
            )
        for devices in account.drivers.values():
            for one in devices:
                if not use.request or not one.requests or use.request in one.requests:
                    found |= dict.fromkeys(one.cdi_device_ids)
    return tuple(found)


def prepared_resources(accounts: Iterable[ClaimAccount]) -> PreparedResources:
    """List the devices of a pod's claims for its history, which has room for some."""
    found = [
        ClaimedDevice(
            one.claim.name,
            driver,
            _short(device.pool),
            _short(device.device),
            tuple(map(_short, device.requests[:MOST_TOLD])),
        )
        for one in accounts
        for driver, devices in sorted(one.drivers.items())
        for device in devices
    ]
    return PreparedResources(tuple(found[:MOST_TOLD]), max(0, len(found) - MOST_TOLD))


def _short(name: str) -> str:
    """Cut a driver's name of something: in the API it has at most 253 characters."""
    return name[:LONGEST_TOLD]


def in_use(accounts: Accounts) -> dict[str, int]:
    """Count the prepared claims of each driver, and of all under ANY_DRIVER (claimsInUse)."""
    prepared = [one for one in accounts.values() if one.is_prepared]
    counts = {ANY_DRIVER: len(prepared)}
    for one in prepared:
        for driver in one.drivers:
            counts[driver] = counts.get(driver, 0) + 1
    return counts
