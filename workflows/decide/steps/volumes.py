"""When a pod's volumes are mounted and unmounted (pkg/kubelet/kubelet.go SyncPod, SyncTerminatedPod).

One action mounts all that a container uses, beside the sandbox and the images; containers start when all are mounted. They
are mounted again for a new sandbox, because the node may have rebooted, and for an ephemeral container that uses one more; a volume
that is still mounted is reused. They are unmounted when nothing of the pod runs any more, even if its source still lists it.
"""

from collections.abc import Iterator

from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.mounted import VolumesFacts
from workflows.decide.actions import Action, Wake
from workflows.decide.containers.standing import pod_is_done
from workflows.decide.contents import pod_digest
from workflows.decide.situation import Situation, unless_backing_off
from workflows.decide.slices import volumes_slice
from workflows.decide.steps.sandbox import may_have_sandbox
from workflows.decide.volumes.mounts import are_mounted, asks_recursive_read_only, mount_attempt, to_mount
from workflows.decide.volumes.refresh import drop_applied_hints, refresh_volumes, refreshed


def mount_volumes(situation: Situation) -> Iterator[Action | Wake]:
    """Mount the volumes of a pod that has a sandbox or gets one."""
    if situation.observed.waiting_for or pod_is_done(situation):
        return
    if are_mounted(situation):
        yield from refresh_volumes(situation)
        return
    if situation.sandbox_id or may_have_sandbox(situation):
        yield from unless_backing_off(situation, mounting(situation))


def mounting(situation: Situation) -> MountVolumes:
    """Return the request that mounts a pod's volumes."""
    wanted = to_mount(situation)
    return MountVolumes(
        situation.key,
        tuple(wanted["spec"].get("volumes") or ()),
        volumes_slice(wanted, labels=situation.settings.selinux),
        mount_attempt(situation),
        asks_recursive_read_only(situation),
        told=pod_digest(wanted),
    )


def unmount_volumes(situation: Situation) -> Iterator[Action | Wake]:
    """Unmount the volumes of a pod of which nothing runs any more, whether or not any mount is known, or any container uses them."""
    volumes = tuple(situation.source["spec"].get("volumes") or ())
    if volumes and not situation.observed.volumes_undone:
        yield from unless_backing_off(
            situation, UnmountVolumes(situation.key, volumes, volumes_slice(situation.source))
        )


def volumes_mounted(situation: Situation, action: MountVolumes, mounted: MountedVolumes) -> None:
    """Record which volumes are mounted and for which sandbox; after a refresh, what they show now."""
    observed = situation.observed
    if action.refresh is not None:
        refreshed(observed, action, mounted)
        return
    asked = action.asks_recursive_read_only
    observed.volumes = VolumesFacts(action.sandbox_attempt, mounted.volumes, mounted.objects, action.told, asked)
    drop_applied_hints(observed, mounted.objects)
    observed.volumes_undone = False


def volumes_unmounted(situation: Situation) -> None:
    """Record that no volume of the pod is mounted."""
    situation.observed.volumes, situation.observed.volumes_undone = None, True
