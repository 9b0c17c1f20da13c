"""The text of `dra_manager_state`, as the kubelet writes and reads it (dra/state/checkpoint.go)."""

import json
import zlib
from typing import Any, Final

from proto.dra.claims import Claim, PreparedDevice
from proto.json_object import WRONG_FIELD, NoJsonObject, read_object
from workflows.decide.claims.accounts import Accounts, ClaimAccount

STATE_FILE: Final = "dra_manager_state"
"""Its name below --root-dir."""
_KIND: Final = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}


class CheckpointError(ValueError):
    """The file cannot be used."""


def written_checkpoint(accounts: Accounts) -> str:
    """Write the file."""
    entries = [_entry(accounts[key]) for key in sorted(accounts)]
    data = json.dumps({**_KIND, "ClaimInfoStateList": entries}, separators=(",", ":"))
    return json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())}, separators=(",", ":"))


def read_checkpoint(text: str) -> Accounts:
    """Read the file; no claim counts as prepared. Raises CheckpointError."""
    try:
        content = read_object(text)
        data, checksum = str(content["Data"]), int(content["Checksum"])
        is_intact = checksum == zlib.crc32(data.encode())
        accounts = [_account(one) for one in read_object(data).get("ClaimInfoStateList") or ()] if is_intact else []
    except NoJsonObject as error:
        raise CheckpointError(f"checkpoint is corrupted: {error}") from error
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise CheckpointError(f"checkpoint is corrupted: {WRONG_FIELD}") from error
    if not is_intact:
        raise CheckpointError("checkpoint is corrupted")  # the kubelet's words
    return {one.key: one for one in accounts}


def _entry(account: ClaimAccount) -> dict[str, Any]:
    return {
        "ClaimUID": account.claim.uid,
        "ClaimName": account.claim.name,
        "Namespace": account.claim.namespace,
        "PodUIDs": {uid: {} for uid in sorted(account.pods)},
        "DriverState": {
            driver: {"Devices": [_device(one) for one in devices] or None}
            for driver, devices in sorted(account.drivers.items())
        },
    }


def _device(device: PreparedDevice) -> dict[str, Any]:
    return {
        "PoolName": device.pool,
        "DeviceName": device.device,
        "ShareID": device.share_id,
        "RequestNames": list(device.requests) or None,
        "CDIDeviceIDs": list(device.cdi_device_ids) or None,
    }


def _account(entry: dict[str, Any]) -> ClaimAccount:
    return ClaimAccount(
        claim=Claim(str(entry["Namespace"]), str(entry["ClaimName"]), str(entry["ClaimUID"])),
        pods=frozenset(map(str, entry.get("PodUIDs") or ())),
        drivers={
            str(driver): tuple(map(_prepared, state.get("Devices") or ()))
            for driver, state in (entry.get("DriverState") or {}).items()
        },
    )


def _prepared(device: dict[str, Any]) -> PreparedDevice:
    share = device.get("ShareID")
    return PreparedDevice(
        pool=str(device.get("PoolName", "")),
        device=str(device.get("DeviceName", "")),
        share_id=None if share is None else str(share),
        requests=tuple(map(str, device.get("RequestNames") or ())),
        cdi_device_ids=tuple(map(str, device.get("CDIDeviceIDs") or ())),
    )
