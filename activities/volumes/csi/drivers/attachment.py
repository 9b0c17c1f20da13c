"""Waits until a volume is attached to this node, which the attach/detach controller and the driver's attacher do.

Used before a volume is staged whose driver requires it (CSIDriver spec.attachRequired, the default). The attachment's
metadata is passed to the driver (csi_attacher.go WaitForAttach, csi_plugin.go getPublishContext). The node authorizer
allows reading single VolumeAttachments only, so the object is polled with backoff.

A driver that counts its places on this node may find one within the time of a try. If not, the pod is rejected, so that the
cluster runs another one where there is a place (volume_manager.go WaitForAttachAndMount, csi_plugin.go VerifyExhaustedResource).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from activities.volumes.csi.records.volume import CsiVolume, attachment_name
from activities.volumes.plugin.attaching import wait_for
from activities.volumes.plugin.volume_type import AttachLimitExceeded, NotAttached

_RESOURCE_EXHAUSTED: Final = 8
"""gRPC's number."""


class NoPlaceForVolume(NotAttached):
    """The driver cannot attach one more volume to this node."""


@dataclass(slots=True)
class _Attaching:
    """A volume that is being attached, as it was seen last."""

    objects: ObjectSource
    volume: CsiVolume
    node: str
    no_place: Callable[[], None] | None
    why: str = ""
    no_room: bool = False
    told: bool = False

    @property
    def name(self) -> str:
        """The VolumeAttachment's."""
        return attachment_name(self.volume.handle, self.volume.driver, self.node)

    async def look(self) -> dict[str, str] | None:
        """Return the publish context once it is attached; raises NotAttached."""
        try:
            attachment = (await self.objects.get(ObjectKind.VOLUME_ATTACHMENTS, "", self.name)).json
            if (context := publish_context(attachment)) is not None:
                return context
            self.why, self.no_room = "it is not attached yet", False
        except (ObjectMissing, ObjectRefused) as error:
            self.why, self.no_room = str(error), False
        except NoPlaceForVolume as error:
            if self.no_place is None:
                raise
            self.why, self.no_room = str(error), True
            if not self.told:
                self.no_place()
                self.told = True
        return None

    def failure(self, seconds: float) -> NotAttached:
        """Say what was lacking when the time was over."""
        failed = AttachLimitExceeded if self.no_room else NotAttached
        return failed(
            f"kubernetes.io/csi: attacher.WaitForAttach failed: volume {self.volume.handle} is not attached to node "
            f"{self.node} after {seconds:g} s: {self.why}"
        )


async def wait_attached(
    objects: ObjectSource, volume: CsiVolume, node: str, no_place: Callable[[], None] | None = None
) -> dict[str, str]:
    """Wait until a volume is attached, and return the publish context; raises NotAttached.

    With `no_place`, which is called once, also while there is no place for it: raises AttachLimitExceeded in the end.
    """
    attaching = _Attaching(objects, volume, node, no_place)
    attached = f"volume {volume.name} is attached to node {node} (VolumeAttachment {attaching.name})"
    return await wait_for(attaching.look, attaching.failure, attached)


def publish_context(attachment: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the publish context; None while attaching is under way. Raises NotAttached if it failed."""
    if attachment["metadata"].get("deletionTimestamp"):
        raise NotAttached("kubernetes.io/csi: attacher.WaitForAttach failed: volume attachment is being deleted")
    status = attachment.get("status") or {}
    if status.get("attached"):
        return dict(status.get("attachmentMetadata") or {})
    if error := status.get("attachError"):
        failed = NoPlaceForVolume if error.get("errorCode") == _RESOURCE_EXHAUSTED else NotAttached
        raise failed(f"kubernetes.io/csi: attacher.WaitForAttach failed: {error.get('message', '')}")
    return None
