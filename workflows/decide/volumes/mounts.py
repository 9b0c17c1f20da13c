"""What is known of a pod's volumes, and which of them a container gets: asked by its start, its status and `explain`."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_image_volume_status import V1ImageVolumeStatus
from kubernetes.client.models.v1_volume_mount import V1VolumeMount
from kubernetes.client.models.v1_volume_mount_status import V1VolumeMountStatus
from kubernetes.client.models.v1_volume_status import V1VolumeStatus

from proto.temporal.mounted import MountedVolume
from workflows.decide.situation import Situation

RECURSIVE: Final = ("Enabled", "IfPossible")


def sandbox_served(situation: Situation) -> int:
    """Say the attempt of the sandbox for which volumes are to be mounted: the one that is, or the next."""
    observed = situation.observed
    if observed.sandbox and observed.sandbox.ready:
        return observed.sandbox.attempt
    return observed.next_sandbox_attempt


def are_mounted(situation: Situation) -> bool:
    """Say whether containers may start as far as volumes go."""
    known = situation.observed.volumes
    if not situation.spec.volumes:
        return True
    if known is None or known.sandbox_attempt != sandbox_served(situation):
        return False
    return known.knows_recursive_read_only or not asks_recursive_read_only(situation)


def mounted_for(situation: Situation, container: V1Container) -> tuple[MountedVolume, ...]:
    """List the volumes that a container mounts, those that its variables are read from, and whose groups it is in."""
    known = situation.observed.volumes
    if known is None:
        return ()
    wanted = {one.name for one in (*(container.volume_mounts or ()), *(container.volume_devices or ()))}
    chosen = (one.value_from and one.value_from.file_key_ref for one in container.env or ())
    wanted |= {one.volume_name for one in chosen if one}
    return tuple(with_image(situation, one) for one in known.volumes if one.name in wanted or one.group_id is not None)


def with_image(situation: Situation, volume: MountedVolume) -> MountedVolume:
    """Say of a volume that shows an image which one is on the node for it."""
    asked = situation.volume_images.get(volume.name)
    return volume if asked is None else replace(volume, image=asked[0], image_ref=situation.image_of(asked).image_ref)


def asks_recursive_read_only(situation: Situation) -> bool:
    """Say whether any container has a mount that is to be read-only with all below."""
    mounts = (mount for one in situation.all_containers for mount in one.volume_mounts or ())
    return any(mount.recursive_read_only in RECURSIVE for mount in mounts)


def mount_statuses(situation: Situation, container: V1Container) -> list[V1VolumeMountStatus] | None:
    """Tell a container's mounts as its status does (pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses)."""
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
    """Say which image a volume shows, where the gate ImageVolumeWithDigest is on."""
    if not situation.settings.image_volume_with_digest or volume is None or not volume.image_ref:
        return None
    return V1VolumeStatus(image=V1ImageVolumeStatus(image_ref=volume.image_ref))


def recursion(mount: V1VolumeMount, volume: MountedVolume | None) -> str:
    """Say whether a mount that is read-only is so with all that is mounted below."""
    able = volume is not None and volume.recursive_read_only
    alone = mount.mount_propagation in (None, "None")
    return "Enabled" if mount.recursive_read_only in RECURSIVE and able and alone else "Disabled"


def unmounted(situation: Situation) -> Iterator[str]:
    """Name the volumes that are not known to be mounted."""
    if not are_mounted(situation):
        yield from (one.name for one in situation.spec.volumes or ())
