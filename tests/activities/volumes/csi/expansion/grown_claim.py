"""A node in a cluster with one claim that has grown: its status is patched by merging, as the API server does it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from activities.clients.api_server.errors import ApiRefused
from activities.objects.objects import ObjectKind
from proto.volume_events import VolumeEvent
from tests.activities.volumes.csi.csi_node import Node

EXPANDS: Final = ("STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME")
EXPAND: Final = "NodeExpandVolume"
GI: Final = 1 << 30


@dataclass
class GrownClaim:
    """The node, its claim `mine` with the volume `pv1`, and what was told of it."""

    node: Node
    told: list[VolumeEvent] = field(default_factory=list)
    patches: list[Mapping[str, Any]] = field(default_factory=list)
    refuse: bool = False
    """The API server refuses patches."""

    def __post_init__(self) -> None:
        self.node.services = replace(self.node.services, api=self, volume_changed=self.told.append)  # type: ignore[arg-type]

    def grow(self, *, has: str = "1Gi", to: str = "2Gi", status: bool = True, **spec: Any) -> None:
        """Let the controller have expanded the volume, with or without the claim's status."""
        objects = self.node.objects
        self.node.bind(capacity={"storage": to}, **spec)
        claim = objects.kept[ObjectKind.PERSISTENT_VOLUME_CLAIMS, "default", "mine"].json
        state = {"allocatedResources": {"storage": to}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}}
        waits = [{"type": "FileSystemResizePending", "status": "True"}]
        objects.put(
            ObjectKind.PERSISTENT_VOLUME_CLAIMS,
            "mine",
            {
                "spec": {**claim["spec"], "resources": {"requests": {"storage": to}}},
                "status": {
                    "phase": "Bound",
                    "capacity": {"storage": has},
                    "conditions": waits,
                    **(state if status else {}),
                },
            },
        )

    def grow_other(self) -> None:
        """Let a claim `other` with the volume `pv2` have grown in the same way."""
        kept, put = self.node.objects.kept, self.node.objects.put
        claim = kept[ObjectKind.PERSISTENT_VOLUME_CLAIMS, "default", "mine"].json
        volume = kept[ObjectKind.PERSISTENT_VOLUMES, "", "pv1"].json["spec"]
        made_of, bound = {**volume["csi"], "volumeHandle": "vol-2"}, {**volume["claimRef"], "name": "other"}
        spec = {**claim["spec"], "volumeName": "pv2"}
        put(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "other", {"spec": spec, "status": claim["status"]})
        put(ObjectKind.PERSISTENT_VOLUMES, "pv2", {"spec": {**volume, "csi": made_of, "claimRef": bound}})

    @property
    def sizes(self) -> list[str]:
        """The sizes in the status of each claim, in the order of their names."""
        kept = sorted(self.node.objects.kept.items())
        return [
            one.json["status"]["capacity"]["storage"]
            for (kind, _, _), one in kept
            if kind is ObjectKind.PERSISTENT_VOLUME_CLAIMS
        ]

    @property
    def status(self) -> Mapping[str, Any]:
        """The claim's status."""
        status: Mapping[str, Any] = self.node.objects.kept[ObjectKind.PERSISTENT_VOLUME_CLAIMS, "default", "mine"].json[
            "status"
        ]
        return status

    @property
    def reasons(self) -> list[tuple[str, bool]]:
        """The reasons of what was told, and whether it is about the claim as well."""
        return [(one.reason, one.claim is not None) for one in self.told]

    async def patch(self, path: str, body: Mapping[str, Any], *, kind: str) -> Mapping[str, Any]:
        """Merge a patch into the claim, as the API server."""
        name = path.removeprefix("/api/v1/namespaces/default/persistentvolumeclaims/").removesuffix("/status")
        assert kind == "application/merge-patch+json"
        if self.refuse:
            raise ApiRefused(409, "Conflict", "it has changed")
        self.patches.append(body["status"])
        claim = self.node.objects.kept[ObjectKind.PERSISTENT_VOLUME_CLAIMS, "default", name].json
        changed = {**claim, "status": merged(claim["status"], body["status"])}
        self.node.objects.put(ObjectKind.PERSISTENT_VOLUME_CLAIMS, name, changed)
        return changed


def merged(old: Any, patch: Any) -> Any:
    """Merge by RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    kept = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept
