"""Rules about volumes whose files come from an image, a server or a network disk.

Source: pkg/apis/core/validation/validation.go, validateImageVolumeSource, validateNFSVolumeSource,
validateISCSIVolumeSource, validateFCVolumeSource.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.manifest.fields.field_errors import invalid, not_supported, required
from workflows.decide.manifest.validation.containers.containers import PULL_POLICIES

Source = Mapping[str, Any]

_IQN: Final = re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+", re.ASCII)
_EUI: Final = re.compile(r"eui.[A-Za-z0-9]{16}", re.ASCII)
_NAA: Final = re.compile(r"naa.[A-Za-z0-9]{32}", re.ASCII)
_NAMES: Final = (("iqn", _IQN), ("eui", _EUI), ("naa", _NAA))
_LUNS: Final = range(256)


def image(source: Source, path: str) -> Iterator[str]:
    """Validate an image volume; as with containers, only the pull finds out whether the reference is valid."""
    if not source.get("reference"):
        yield required(f"{path}.reference")
    if (policy := source.get("pullPolicy")) not in PULL_POLICIES:
        yield not_supported(f"{path}.pullPolicy", policy, PULL_POLICIES)


def nfs(source: Source, path: str) -> Iterator[str]:
    """Validate an nfs volume."""
    folder = source.get("path", "")
    if not source.get("server"):
        yield required(f"{path}.server")
    if not folder:
        yield required(f"{path}.path")
    if not folder.startswith("/"):
        yield invalid(f"{path}.path", folder, "must be an absolute path")


def iscsi(source: Source, path: str) -> Iterator[str]:
    """Validate an iscsi volume."""
    if not source.get("targetPortal"):
        yield required(f"{path}.targetPortal")
    if iqn := source.get("iqn"):
        yield from _iscsi_name(iqn, f"{path}.iqn")
    else:
        yield required(f"{path}.iqn")
    yield from _lun(source.get("lun", 0), f"{path}.lun")
    if "initiatorName" in source:
        yield from _iscsi_name(source["initiatorName"], f"{path}.initiatorname")


def fc(source: Source, path: str) -> Iterator[str]:
    """Validate an fc volume."""
    wwns, wwids = source.get("targetWWNs", []), source.get("wwids", [])
    if not wwns and not wwids:
        yield required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if wwns and wwids:
        yield invalid(f"{path}.targetWWNs", wwns, "targetWWNs and wwids can not be specified simultaneously")
    if wwns and "lun" not in source:
        yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif wwns:
        yield from _lun(source["lun"], f"{path}.lun")


def _iscsi_name(name: str, path: str) -> Iterator[str]:
    kind = next((pattern for start, pattern in _NAMES if name.startswith(start)), None)
    if kind is None:
        yield invalid(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not kind.fullmatch(name):
        yield invalid(path, name, "must be valid format")


def _lun(lun: int, path: str) -> Iterator[str]:
    if lun not in _LUNS:
        yield invalid(path, lun, "must be between 0 and 255, inclusive")
