"""The Kubernetes objects that a pod refers to, read through one protocol wherever they are kept.

Asked by every activity that needs a ConfigMap, a Secret, a volume's claim or a RuntimeClass. A standalone node keeps them in
a folder (`worker/objects/`), a cluster behind its API; the readers see no difference. What is read stays in the process: of
an object only its name and its `version` may be told to anybody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol


class ObjectKind(StrEnum):
    """What can be referred to, by the API's plural name."""

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
        """Say whether it belongs to a namespace."""
        return self not in _CLUSTER_SCOPED

    @property
    def singular(self) -> str:
        """The word that the kubelet's messages have for it."""
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
    """One object as its source has it now."""

    version: str
    """Changes with the object and says nothing of what is in it; may be written into history."""
    json: Mapping[str, Any] = field(repr=False)
    """The API's form; of a Secret `data` is complete (base64) and `stringData` is merged into it. Shared: never changed."""

    @property
    def immutable(self) -> bool:
        """Say whether its content is promised to stay (ConfigMaps and Secrets)."""
        return self.json.get("immutable") is True


class ObjectMissing(Exception):
    """There is no such object; the words begin with the API's own."""

    def __init__(self, kind: ObjectKind, name: str, hint: str = "") -> None:
        super().__init__(f'{kind.singular} "{name[:253]}" not found' + (f": {hint}" if hint else ""))


class ObjectRefused(Exception):
    """There is something, and it is not taken: which object, why, and what now; never a value."""


class ObjectSource(Protocol):
    """Where objects are kept."""

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
        """Read one object as it is now; `namespace` is not looked at where the kind has none.

        Raises ObjectMissing and ObjectRefused.
        """
        ...


class NoObjects:
    """A node that keeps none."""

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
        """Find nothing."""
        raise ObjectMissing(kind, name, f"no place for the objects of namespace {namespace} is configured")
