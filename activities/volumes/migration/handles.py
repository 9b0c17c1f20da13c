"""How the drivers that took over the volumes of clouds name them; pure (csi-translation-lib aws_ebs.go, gce_pd.go, azure_file.go)."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

_EBS: Final = "aws://"
_EBS_VOLUME: Final = re.compile(r"vol-[^/]*")
_WRONG_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ACCOUNT: Final = re.compile(r"azure-storage-account-(.+)-secret")
_UNKNOWN: Final = "UNSPECIFIED"


class MigrationError(Exception):
    """A volume cannot be translated; the message is the library's."""


def ebs_volume(volume_id: str) -> str:
    """Return the id of an EBS volume, which may be given as `aws://<zone>/<id>`; raises MigrationError."""
    if not volume_id.startswith(_EBS):
        return volume_id
    address = volume_id.partition("#")[0].removeprefix(_EBS).partition("?")[0]
    path = address.partition("/")[2]
    if _WRONG_ESCAPE.search(address) or _CONTROL.search(volume_id):
        raise MigrationError(f"Invalid disk name ({volume_id}): it is no URL")
    found = unquote(path).strip("/")
    if not _EBS_VOLUME.fullmatch(found):
        raise MigrationError(f"Invalid format for AWS volume ({volume_id})")
    return found


def gce_disk(name: str, zones: Sequence[str] = ()) -> str:
    """Return the id of a disk in a zone, in several of one region, or in one that is not known; raises MigrationError."""
    if len(zones) > 1:
        return f"projects/{_UNKNOWN}/regions/{_gce_region(zones)}/disks/{name}"
    return f"projects/{_UNKNOWN}/zones/{zones[0] if zones and zones[0] else _UNKNOWN}/disks/{name}"


def azure_account(secret_name: str) -> str:
    """Return the storage account that the name of its Secret contains, or else that name."""
    found = _ACCOUNT.search(secret_name)
    return found[1] if found else secret_name


def _gce_region(zones: Sequence[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise MigrationError(
                f"failed to get region from zones: zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        raise MigrationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: {sorted(regions)}"
        )
    return regions.pop()
