"""Claims as drivers are asked for them, and the devices that they prepare. Shared by the client of drivers and what keeps account of claims."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """A ResourceClaim, as a driver is asked for it."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """A device of a claim that a driver has prepared (dra/state Device)."""

    pool: str
    device: str
    share_id: str | None = None
    requests: tuple[str, ...] = ()
    """The claim's requests that it is for; empty: for all."""
    cdi_device_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """What a driver says about one claim."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""
