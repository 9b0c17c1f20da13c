"""MountVolumes and UnmountVolumes: the volumes of a pod in parallel, each by its type.

Those that no container uses are not mounted (`workflows/decide/volumes/mounts.py`). If a volume cannot be mounted, the pod's
others are mounted nevertheless, and the next try finds them. Unmounting covers every volume, whether or not it was mounted.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.clients.cri_error import CriError
from activities.execution.errors import non_retryable_failure, runtime_failure
from activities.execution.heartbeat import heartbeating
from activities.execution.timings import MOUNT, UNMOUNT
from activities.files.file_trees import StillMounted
from activities.files.mounts import mounts_below
from activities.files.pod_paths import plain_name
from activities.objects.terminating_pods import PodTerminatingError
from activities.pods.directories import make_directories
from activities.pods.orphan_mark import unmark
from activities.sandbox.runtime_classes import RuntimeClassRefused, runtime_class_of
from activities.volumes.plugin.ownership import FsGroup, apply_fs_group, fs_group_of
from activities.volumes.plugin.services import VolumeServices
from activities.volumes.plugin.table import kind_of, plugin_label, volume_type
from activities.volumes.plugin.volume_type import (
    AttachLimitExceeded,
    Mounted,
    NotAttached,
    NotProcessed,
    PodVolume,
    Step,
    VolumeFailed,
    VolumeType,
)
from activities.volumes.subpaths import unmount_sub_paths
from proto.kubernetes.pod_containers import every_container
from proto.temporal import names
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.failure_types import FAILED_MOUNT, FAILED_UNMOUNT, VOLUME_ATTACHMENT_LIMIT_EXCEEDED
from proto.temporal.pod import PodJson, PodKey

_UNPROCESSED: Final = "Unable to attach or mount volumes:"
_GIVEN: Final = "tempolet.dev/fs-group"
_EXPECTED: Final = (VolumeFailed, StillMounted, OSError, CriError, ApplicationError)


class VolumeActivities:
    """Activities for the volumes of a pod."""

    def __init__(self, services: VolumeServices) -> None:
        self._services = services

    @activity.defn(name=names.MOUNT_VOLUMES)
    async def mount_volumes(self, request: MountVolumes) -> MountedVolumes:
        """Mount every volume that is asked for; mounted ones are found. Raises FailedMount, which lists every volume that failed.

        Also raised when the pod begins to terminate while a mount hangs. Raises VolumeAttachmentLimitExceeded if the
        node has no place for a volume.
        """
        pod, services = request.pod, self._services
        async with heartbeating(f"mount the volumes of {pod}"), services.locks.hold(f"{pod.uid}//volumes"):
            await make_directories(services.paths(pod), ())
            await asyncio.to_thread(unmark, services.paths(pod).directory)
            try:
                return await services.terminating.unless_terminating(pod.uid, self._mount_all(request))
            except PodTerminatingError as given_up:
                raise non_retryable_failure(
                    FAILED_MOUNT, f"the volumes of {pod} were not mounted: {given_up}"
                ) from None

    @activity.defn(name=names.UNMOUNT_VOLUMES)
    async def unmount_volumes(self, request: UnmountVolumes) -> None:
        """Unmount every volume of a pod; missing ones are fine.

        Raises FailedUnmount, which lists every volume that failed.
        """
        pod = request.pod
        async with heartbeating(f"unmount the volumes of {pod}"), self._services.locks.hold(f"{pod.uid}//volumes"):
            await self._unmount_sub_paths(pod)
            found = pod_volumes(self._services, await asyncio.to_thread(self._mounted_here, request))
            ends = await asyncio.gather(*(self._unmount(kind, one) for kind, one in found), return_exceptions=True)
            failures = failure_message(_unmounting, [one for _, one in found], ends)
            if failures:
                raise non_retryable_failure(FAILED_UNMOUNT, failures)

    def _mounted_here(self, request: UnmountVolumes) -> UnmountVolumes:
        """Leave out volumes of types that this version lacks, unless one is mounted: the pod was refused for them, and can be deleted."""
        unknown = [one for one in request.volumes if volume_type(kind_of(one)) is None]
        if not unknown:
            return request
        below = mounts_below(self._services.paths(request.pod).directory)
        mounted = {part for mount in below for part in Path(mount).parts}
        gone = [one for one in unknown if one["name"] not in mounted]
        return replace(request, volumes=tuple(one for one in request.volumes if one not in gone))

    async def _unmount_sub_paths(self, pod: PodKey) -> None:
        """Unmount the subPaths of containers, before the volumes themselves."""
        try:
            await asyncio.to_thread(unmount_sub_paths, self._services.paths(pod).directory)
        except OSError as error:
            raise non_retryable_failure(FAILED_UNMOUNT, f"error cleaning subPath mounts: {error}") from error

    async def _mount_all(self, request: MountVolumes) -> MountedVolumes:
        found = pod_volumes(self._services, request)
        ends = await asyncio.gather(*(self._mount(kind, one) for kind, one in found), return_exceptions=True)
        volumes = [one for _, one in found]
        if failures := mount_failures(volumes, ends):
            if request.refresh is None and (limit := limit_message(volumes, ends)):
                raise non_retryable_failure(VOLUME_ATTACHMENT_LIMIT_EXCEEDED, limit)
            raise non_retryable_failure(FAILED_MOUNT, failures)
        mounted = [one for one in ends if isinstance(one, Mounted)]
        asked = request.asks_recursive_read_only
        recursive = asked and await self._supports_recursive_read_only(request.pod_spec)
        return MountedVolumes(
            tuple(replace(one.volume, recursive_read_only=recursive) for one in mounted),
            tuple(one.volume.name for one in mounted if one.found),
            {name: version for one in mounted for name, version in one.objects.items()},
        )

    async def _mount(self, kind: str, volume: PodVolume) -> Mounted:
        """Mount one volume and apply fsGroup if its type asks for that."""
        with self._services.timings.of_volume(MOUNT, plugin_label(kind, volume.source)) as timed:
            mounted = await type_named(kind, volume.name).mount(replace(volume, timed=timed))
        if mounted.needs_fs_group and (group := fs_group_of(volume.pod_spec)):
            await asyncio.to_thread(_apply_fs_group_once, volume, mounted, group)
        return mounted

    async def _unmount(self, kind: str, volume: PodVolume) -> None:
        with self._services.timings.of_volume(UNMOUNT, plugin_label(kind, volume.source)) as timed:
            await type_named(kind, volume.name).unmount(replace(volume, timed=timed))

    async def _supports_recursive_read_only(self, pod: PodJson) -> bool:
        """Ask whether the pod's runtime handler supports recursive read-only mounts.

        Source: pkg/kubelet/kubelet.go runtimeHandlerSupportsRecursiveReadOnlyMounts.
        """
        services = self._services
        try:
            wanted = (await runtime_class_of(services.objects, pod)).handler or services.settings.runtime_handler
            handlers = (await services.runtime.abilities()).runtime_handlers
        except RuntimeClassRefused as refused:
            raise non_retryable_failure(FAILED_MOUNT, str(refused)) from refused
        except CriError as error:
            doing = "ask the runtime whether it can mount read-only with all below"
            raise runtime_failure(error, services.runtime.endpoint, FAILED_MOUNT, doing) from error
        return any(one.name == wanted and one.features.recursive_read_only_mounts for one in handlers)


def _apply_fs_group_once(volume: PodVolume, mounted: Mounted, group: FsGroup) -> None:
    """Give a volume to a group; for one that was mounted before, a mark file says whether that was completed."""
    mark = volume.paths.plugin_state(_GIVEN) / plain_name(volume.name, "volume name")
    if mounted.found and mark.exists():
        return
    mark.unlink(missing_ok=True)
    apply_fs_group(Path(mounted.volume.path), group, read_only=mounted.volume.read_only)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def pod_volumes(services: VolumeServices, request: MountVolumes | UnmountVolumes) -> list[tuple[str, PodVolume]]:
    """List a pod's volumes, each with its type's name."""
    found = []
    for volume in request.volumes:
        kind = kind_of(volume)
        type_named(kind, volume["name"])
        source = volume.get(kind) or {}
        found.append((kind, PodVolume(request.pod, str(volume["name"]), source, request.pod_spec, services)))
    return found


def type_named(kind: str, name: str) -> VolumeType:
    """Find the type of the volume `name`; raises FailedMount when this version has none."""
    found = volume_type(kind)
    if found is None:
        raise non_retryable_failure(FAILED_MOUNT, f'volume "{name}": no volume plugin matched')
    return found


def mount_failures(volumes: Sequence[PodVolume], ends: Sequence[object]) -> str:
    """Build the kubelet's message of a pod whose volumes could not all be mounted; unexpected errors are raised unchanged."""
    unprocessed = [one for one in ends if isinstance(one, NotProcessed)]
    others = [None if isinstance(one, NotProcessed) else one for one in ends]
    failures = [one for one in (failure_message(_mounting, volumes, others),) if one]
    if unprocessed:
        failures.append(f"{_UNPROCESSED} {_lists(volumes, ends)}: {'; '.join(map(str, unprocessed))}")
    return "; ".join(failures)


def failure_message(
    doing: Callable[[PodVolume, object], str], volumes: Sequence[PodVolume], ends: Sequence[object]
) -> str:
    """Build the kubelet's message with every failed volume; unexpected errors are raised unchanged."""
    failures = []
    for volume, end in zip(volumes, ends, strict=True):
        name = end.volume or volume.name if isinstance(end, VolumeFailed) else volume.name
        match end:
            case ApplicationError(message=message):
                failures.append(f'{doing(volume, end)} for volume "{name}" : {message}')
            case BaseException() if isinstance(end, _EXPECTED):
                failures.append(f'{doing(volume, end)} for volume "{name}" : {end}')
            case BaseException():
                raise end
    return "; ".join(failures)


def limit_message(volumes: Sequence[PodVolume], ends: Sequence[object]) -> str:
    """Build the kubelet's message if the node has no place for one of the volumes; else empty (VolumeAttachLimitExceededError)."""
    if not any(isinstance(end, AttachLimitExceeded) for end in ends):
        return ""
    return f"Node has reached its volume attachment limit, rejecting pod. {_lists(volumes, ends)}: context deadline exceeded"


def _lists(volumes: Sequence[PodVolume], ends: Sequence[object]) -> str:
    """List the volumes that failed, as the kubelet does (WaitForAttachAndMount)."""
    unmounted, unattached, unprocessed = (
        " ".join(sorted(one.name for one, end in zip(volumes, ends, strict=True) if isinstance(end, failed)))
        for failed in (Exception, NotAttached, NotProcessed)
    )
    return (
        f"unmounted volumes=[{unmounted}], unattached volumes=[{unattached}], failed to process volumes=[{unprocessed}]"
    )


def _mounting(volume: PodVolume, end: object) -> str:
    """Say what failed of a volume that cannot be mounted, or of a block device (operation_generator.go)."""
    spec = volume.pod_spec.get("spec") or {}
    uses = (one for container in every_container(spec) for one in container.get("volumeDevices") or ())
    files, device = (end.step if isinstance(end, VolumeFailed) else Step.SET_UP).value
    return device if any(one["name"] == volume.name for one in uses) else files


def _unmounting(_: PodVolume, __: object) -> str:
    return "UnmountVolume.TearDown failed"
