"""The kubelet's image pull records: types, JSON and file names; pure.

ImagePullIntent and ImagePulledRecord of kubelet.config.k8s.io (pkg/kubelet/images/pullmanager/fs_pullrecords.go), so
that a kubelet and tempolet on one node know each other's pulls. v1alpha1 is read, v1beta1 is read and written.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

GROUP: Final = "kubelet.config.k8s.io"
VERSION: Final = f"{GROUP}/v1beta1"
VERSIONS: Final = frozenset({VERSION, f"{GROUP}/v1alpha1"})
PREFIX: Final = "sha256-"
SUFFIX_OF_UNFINISHED: Final = ".tmp"

LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_RIGHTS: Final = frozenset({"kubernetesSecrets", "kubernetesServiceAccounts", "nodePodsAccessible"})


class BrokenRecord(ValueError):
    """The text is not such a record."""


@dataclass(frozen=True, slots=True, order=True)
class SecretRight:
    """A secret with which an image was pulled."""

    namespace: str
    name: str
    uid: str
    hash: str = field(compare=False)
    """Hash of its login (`Login.digest`)."""

    def is_same_secret(self, other: "SecretRight") -> bool:
        """Report whether it is the same object; without a UID, only its login can tell."""
        return bool(self.uid) and self == other


@dataclass(frozen=True, slots=True, order=True)
class AccountRight:
    """A service account by whose token a credential provider gave the login for a pull."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Rights:
    """The credentials that have pulled an image."""

    secrets: tuple[SecretRight, ...] = ()
    service_accounts: tuple[AccountRight, ...] = ()
    everyone: bool = False
    """It was pulled without a login, or with one of the node's own."""

    def __bool__(self) -> bool:
        """Report whether there are any."""
        return bool(self.everyone or self.secrets or self.service_accounts)

    def merged(self, new: "Rights") -> "Rights":
        """Add the credentials of another pull; a secret's newest login replaces the older."""
        if self.everyone or not new:
            return self
        if new.everyone:
            return Rights(everyone=True)
        if not new.secrets:
            accounts = {*self.service_accounts, *new.service_accounts}
            known = accounts == set(self.service_accounts)
            return self if known else replace(self, service_accounts=tuple(sorted(accounts)))
        kept = {one: one for one in (*self.secrets, *new.secrets)}  # equal by coordinates: the newer value stays
        if kept.keys() == set(self.secrets) and all(kept[one].hash == one.hash for one in self.secrets):
            return self
        return replace(self, secrets=tuple(sorted(kept.values())))


@dataclass(frozen=True, slots=True)
class PulledRecord:
    """An image, and the credentials for each name (without tag and digest) that it was pulled by."""

    image_ref: str
    rights: Mapping[str, Rights] = field(default_factory=dict)
    updated_at: datetime = LONG_AGO

    def merged(self, name: str, new: Rights | None, now: datetime) -> "PulledRecord":
        """Add credentials for a name; returns itself if there is nothing new."""
        known = self.rights.get(name)
        if not new:
            return self
        rights = new if known is None else known.merged(new)
        return self if rights is known else replace(self, rights={**self.rights, name: rights}, updated_at=now)


def file_name(subject: str) -> str:
    """Return the file name for an image or reference."""
    return f"{PREFIX}{hashlib.sha256(subject.encode()).hexdigest()}"


def write_intent(image: str) -> bytes:
    """Write an intent."""
    return _json({"kind": "ImagePullIntent", "apiVersion": VERSION, "image": image})


def read_intent(data: bytes) -> str:
    """Read the image of an intent; raises BrokenRecord."""
    image = _record(data, "ImagePullIntent", {"image"}).get("image", "")
    if not isinstance(image, str):
        raise BrokenRecord("image is not text")
    return image


def write_pulled(record: PulledRecord) -> bytes:
    """Write the record of an image."""
    content: dict[str, Any] = {
        "kind": "ImagePulledRecord",
        "apiVersion": VERSION,
        "lastUpdatedTime": record.updated_at.strftime(_TIME),
        "imageRef": record.image_ref,
    }
    if record.rights:
        content["credentialMapping"] = {name: _written(one) for name, one in record.rights.items()}
    return _json(content)


def read_pulled(data: bytes) -> PulledRecord:
    """Read the record of an image; raises BrokenRecord."""
    content = _record(data, "ImagePulledRecord", {"lastUpdatedTime", "imageRef", "credentialMapping"})
    try:
        updated_at = datetime.strptime(content["lastUpdatedTime"], _TIME).replace(tzinfo=UTC)
        mapping = content.get("credentialMapping") or {}
        return PulledRecord(content["imageRef"], {name: _rights(one) for name, one in mapping.items()}, updated_at)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenRecord(f"a field of another shape: {error}") from error


def _written(rights: Rights) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if rights.secrets:
        written["kubernetesSecrets"] = [
            {"uid": one.uid, "namespace": one.namespace, "name": one.name, "credentialHash": one.hash}
            for one in rights.secrets
        ]
    if rights.service_accounts:
        written["kubernetesServiceAccounts"] = [
            {"uid": one.uid, "namespace": one.namespace, "name": one.name} for one in rights.service_accounts
        ]
    if rights.everyone:
        written["nodePodsAccessible"] = True
    return written


def _rights(found: Mapping[str, Any]) -> Rights:
    if not found.keys() <= _RIGHTS:
        raise ValueError("an unknown kind of right")
    secrets = tuple(
        SecretRight(one["namespace"], one["name"], one["uid"], one["credentialHash"])
        for one in found.get("kubernetesSecrets") or ()
    )
    accounts = tuple(
        AccountRight(one["namespace"], one["name"], one["uid"]) for one in found.get("kubernetesServiceAccounts") or ()
    )
    return Rights(secrets, accounts, everyone=found.get("nodePodsAccessible") is True)


def _record(data: bytes, kind: str, fields: set[str]) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BrokenRecord("it is not JSON") from error
    if not isinstance(content, dict) or content.get("kind") != kind or content.get("apiVersion") not in VERSIONS:
        raise BrokenRecord(f"it is no {kind} of {' or '.join(sorted(VERSIONS))}")
    if unknown := content.keys() - fields - {"kind", "apiVersion"}:
        raise BrokenRecord(f"unknown field {min(unknown)!r}")
    return content


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"
