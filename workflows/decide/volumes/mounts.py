"""Which volumes are mounted, and which of them a container gets."""

from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Final

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_image_volume_status import V1ImageVolumeStatus
from kubernetes.client.models.v1_volume_mount import V1VolumeMount
from kubernetes.client.models.v1_volume_mount_status import V1VolumeMountStatus
from kubernetes.client.models.v1_volume_status import V1VolumeStatus

from proto.kubernetes.pod_containers import used_volumes
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson
from workflows.decide.situation import Situation
from workflows.decide.versions import USED_VOLUMES_ONLY

RECURSIVE: Final = ("Enabled", "IfPossible")


def mount_attempt(situation: Situation) -> int:
    """Return the attempt of the sandbox that volumes are to be mounted for: the current one, or the next."""
    observed = situation.observed
    if observed.sandbox and observed.sandbox.ready:
        return observed.sandbox.attempt
    return observed.next_sandbox_attempt


def to_mount(situation: Situation) -> PodJson:
    """Return the pod with the volumes that are mounted: those that a container uses.

    Source: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go processPodVolumes.
    """
    return _with_volumes(situation, used_volumes(situation.source["spec"]))


def to_refresh(situation: Situation) -> PodJson:
    """Return the pod with these volumes and any other that is mounted, as by an earlier behaviour."""
    return _with_volumes(situation, used_volumes(situation.source["spec"]) | known_names(situation))


def _with_volumes(situation: Situation, names: Set[str]) -> PodJson:
    source = situation.source
    volumes = source["spec"].get("volumes") or ()
    kept = [one for one in volumes if one["name"] in names]
    if situation.behaviour < USED_VOLUMES_ONLY or len(kept) == len(volumes):
        return source
    return source | {"spec": source["spec"] | {"volumes": kept}}


def known_names(situation: Situation) -> frozenset[str]:
    """Name the volumes that are known to be mounted, for whichever sandbox."""
    known = situation.observed.volumes
    return frozenset(one.name for one in known.volumes) if known else frozenset()


def are_mounted(situation: Situation) -> bool:
    """Report whether all volumes that containers use are mounted, so that containers may start."""
    known, wanted = situation.observed.volumes, to_mount(situation)["spec"].get("volumes")
    if not wanted:
        return True
    if known is None or known.sandbox_attempt != mount_attempt(situation) or _lacking(situation):
        return False
    return known.knows_recursive_read_only or not asks_recursive_read_only(situation)


def _lacking(situation: Situation) -> list[str]:
    """Name the volumes that an ephemeral container uses, and no container before it; up to behaviour 5 all were mounted from the start."""
    if situation.behaviour < USED_VOLUMES_ONLY:
        return []
    known = known_names(situation)
    return [one["name"] for one in to_mount(situation)["spec"].get("volumes") or () if one["name"] not in known]


def mounted_for(situation: Situation, container: V1Container) -> tuple[MountedVolume, ...]:
    """List the volumes that a container mounts, that its variables are read from, or whose groups it is in."""
    known = situation.observed.volumes
    if known is None:
        return ()
    wanted = {one.name for one in (*(container.volume_mounts or ()), *(container.volume_devices or ()))}
    chosen = (one.value_from and one.value_from.file_key_ref for one in container.env or ())
    wanted |= {one.volume_name for one in chosen if one}
    return tuple(with_image(situation, one) for one in known.volumes if one.name in wanted or one.group_id is not None)


def with_image(situation: Situation, volume: MountedVolume) -> MountedVolume:
    """Add to a volume of type image the reference of the image on the node."""
    asked = situation.volume_images.get(volume.name)
    return volume if asked is None else replace(volume, image=asked[0], image_ref=situation.image_of(asked).image_ref)


def asks_recursive_read_only(situation: Situation) -> bool:
    """Report whether any container has a mount with recursiveReadOnly."""
    mounts = (mount for one in situation.all_containers for mount in one.volume_mounts or ())
    return any(mount.recursive_read_only in RECURSIVE for mount in mounts)


def mount_statuses(situation: Situation, container: V1Container) -> list[V1VolumeMountStatus] | None:
    """Build the statuses of a container's mounts (pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses)."""
    known = {one.name: one for one in mounted_for(situation, container)}
    return [
        V1VolumeMountStatus(
            name=mount.name,
            mount_path=mount.mount_path,
            read_only=mount.read_only or None,
            recursive_read_only=recursion(mount, known.get(mount.name)) if mount.read_only else None,
            volume_status=image_status(situation, known.get(mount.name)),
        )
        for mount in container.volume_mounts or ()
    ] or None


def image_status(situation: Situation, volume: MountedVolume | None) -> V1VolumeStatus | None:
    """Return the image of a volume, if the gate ImageVolumeWithDigest is on."""
    if not situation.settings.image_volume_with_digest or volume is None or not volume.image_ref:
        return None
    return V1VolumeStatus(image=V1ImageVolumeStatus(image_ref=volume.image_ref))


def recursion(mount: V1VolumeMount, volume: MountedVolume | None) -> str:
    """Return the effective recursiveReadOnly of a mount."""
    able = volume is not None and volume.recursive_read_only
    alone = mount.mount_propagation in (None, "None")
    return "Enabled" if mount.recursive_read_only in RECURSIVE and able and alone else "Disabled"


def unmounted(situation: Situation) -> Iterator[str]:
    """Name the volumes that are to be mounted, and not known to be."""
    if not are_mounted(situation):
        yield from _lacking(situation) or (one["name"] for one in to_mount(situation)["spec"]["volumes"])
