"""Looks up the PersistentVolume that a claim is bound to, and whether this node may use it."""

from collections.abc import Mapping
from typing import Any

from activities.clients.api_server.errors import ApiAway, ApiRefused
from activities.clients.api_server.resources import NODES
from activities.objects.objects import ObjectKind, ObjectMissing, StoredObject
from activities.volumes.claims.claims import ClaimUnusable, bound_volume, check_owner, check_use, reachable, volume_name
from activities.volumes.migration.handles import MigrationError
from activities.volumes.migration.translation import migrated_volume
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.services import VolumeServices
from activities.volumes.plugin.table import plugin_label
from activities.volumes.plugin.volume_type import PodVolume, Step, failed_at


async def find_bound_volume(volume: PodVolume, claim: str, *, own: bool) -> PersistentVolume:
    """Look up a claim and its volume; raises ClaimUnusable, ObjectRefused, and VolumeFailed if it is for other nodes."""
    objects, namespace = volume.services.objects, volume.pod.namespace
    stored = await _fetched(objects.get(ObjectKind.PERSISTENT_VOLUME_CLAIMS, namespace, claim), "PVC")
    name = volume_name(stored.json)
    if own:
        check_owner(stored.json, volume.pod.uid, f"{namespace}/{volume.pod.name}")
    found = await _fetched(objects.get(ObjectKind.PERSISTENT_VOLUMES, "", name), f"PV {name}")
    migrated = as_migrated(found.json)
    persistent = bound_volume(name, migrated, stored.json, read_only=bool(volume.source.get("readOnly")))
    check_use(volume.name, persistent, volume.pod_spec["spec"])
    volume.timed.plugin = plugin_label(persistent.type, persistent.source)
    volume.timed.is_device = persistent.block
    spec, node = migrated["spec"], volume.services.settings.node_name
    if spec.get("nodeAffinity") and not reachable(spec, await _node_labels(volume.services), node):
        raise failed_at(Step.AFFINITY, "no matching NodeSelectorTerms", name)
    return persistent


def as_migrated(volume: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a PersistentVolume as the CSI driver has it that took over its type; raises ClaimUnusable."""
    try:
        return migrated_volume(volume)
    except MigrationError as error:
        raise ClaimUnusable(str(error)) from error


async def _node_labels(services: VolumeServices) -> Mapping[str, str]:
    """Return the node's labels, in a cluster those of its Node object, which has the topology of CSI drivers.

    Raises ClaimUnusable.
    """
    if services.api is None:
        return services.settings.node_labels
    try:
        node = await services.api.get(NODES.path(services.settings.node_name))
    except (ApiAway, ApiRefused) as error:
        raise ClaimUnusable(f"error getting node info: {error}") from error
    return node["metadata"].get("labels") or {}


async def _fetched(getting: Any, what: str) -> StoredObject:
    try:
        stored: StoredObject = await getting
    except ObjectMissing as missing:
        raise ClaimUnusable(f"failed to fetch {what}: {missing}") from missing
    return stored
