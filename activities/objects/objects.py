"""The Kubernetes objects that pods refer to, read through one protocol.

Used by every activity that needs a ConfigMap, a Secret, a claim or a RuntimeClass. A standalone node keeps them in a
folder (`worker/objects/`), a cluster in its API. An object's content stays in this process; only its name and
`version` may be reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol


class ObjectKind(StrEnum):
    """Kinds that can be referred to, by the API's plural name."""

    CONFIG_MAPS = "configmaps"
    SECRETS = "secrets"
    PERSISTENT_VOLUME_CLAIMS = "persistentvolumeclaims"
    PERSISTENT_VOLUMES = "persistentvolumes"
    RUNTIME_CLASSES = "runtimeclasses"
    CSI_DRIVERS = "csidrivers"
    SERVICE_ACCOUNTS = "serviceaccounts"
    VOLUME_ATTACHMENTS = "volumeattachments"

    @property
    def namespaced(self) -> bool:
        """Report whether objects of this kind have a namespace."""
        return self not in _CLUSTER_SCOPED

    @property
    def singular(self) -> str:
        """The kubelet's word for it in messages."""
        return _SINGULAR.get(self, str(self))


_CLUSTER_SCOPED: Final = frozenset(
    {
        *(ObjectKind.PERSISTENT_VOLUMES, ObjectKind.RUNTIME_CLASSES),
        *(ObjectKind.CSI_DRIVERS, ObjectKind.VOLUME_ATTACHMENTS),
    }
)
_SINGULAR: Final[Mapping[ObjectKind, str]] = {
    ObjectKind.CONFIG_MAPS: "configmap",  # pkg/kubelet/configmap/configmap_manager.go
    ObjectKind.SECRETS: "secret",
    ObjectKind.PERSISTENT_VOLUME_CLAIMS: "persistentvolumeclaim",
    ObjectKind.PERSISTENT_VOLUMES: "persistentvolume",
    ObjectKind.RUNTIME_CLASSES: "runtimeclass",
    ObjectKind.CSI_DRIVERS: "csidriver",
    ObjectKind.SERVICE_ACCOUNTS: "serviceaccount",
    ObjectKind.VOLUME_ATTACHMENTS: "volumeattachment",
}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as its source has it now."""

    version: str
    """Changes with the object and reveals nothing of its content; may be written to history."""
    json: Mapping[str, Any] = field(repr=False)
    """The API's form; a Secret's `data` is complete (base64), with `stringData` merged into it.

    Shared: never modify it.
    """

    @property
    def immutable(self) -> bool:
        """Whether its content is guaranteed not to change (ConfigMaps and Secrets)."""
        return self.json.get("immutable") is True


class ObjectMissing(Exception):
    """There is no such object; the message begins like the API's."""

    def __init__(self, kind: ObjectKind, name: str, hint: str = "") -> None:
        super().__init__(f'{kind.singular} "{name[:253]}" not found' + (f": {hint}" if hint else ""))


class ObjectRefused(Exception):
    """The object exists but cannot be used; the message says which, why and what to do, and never quotes a value."""


class ObjectSource(Protocol):
    """A source of objects."""

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
        """Read one object; `namespace` is ignored for kinds without one.

        Raises ObjectMissing and ObjectRefused.
        """
        ...


class NoObjects:
    """A source without objects."""

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
        """Raise ObjectMissing."""
        raise ObjectMissing(kind, name, f"no place for the objects of namespace {namespace} is configured")
