"""Expands CSI volumes that pods use, when their claims have grown (volumemanager: desired_state_of_world_populator.go, reconciler).

Every syncFrequency each claim is read, also of a driver that does not expand volumes, which its claim is told; and its
PersistentVolume only if the claim leaves open that it has grown. Nothing tells a node of a change: it may not watch claims. Each
volume has a task of its own, and the next round leaves out one that is still at work: one that hangs delays no other, until
`AT_ONCE` of one driver hang.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

import structlog

from activities.files.pod_paths import CLAIMS, UnsafeName, plain_name
from activities.node_services import NodeServices
from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused
from activities.volumes.claims.claims import ClaimUnusable, bound_volume, volume_name
from activities.volumes.claims.lookup import as_migrated
from activities.volumes.csi.records.block_places import BlockPlace
from activities.volumes.csi.records.places import FilesPlace, Place
from activities.volumes.plugin.volume_type import VolumeFailed
from proto.kubernetes.claims import claim_of
from proto.temporal.pod import PodKey
from proto.volume_events import VolumeEvent
from worker.daemon.background import in_background, repeat
from worker.stats.disks.pod_files import PodFile, PodFiles

FAILED: Final = "VolumeResizeFailed"
AT_ONCE: Final = 16
"""Volumes of one driver at a time."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UsedClaim:
    """A claim whose CSI volume a pod uses, and may write to."""

    pod: PodKey
    claim: str
    volume: str
    """Name of the PersistentVolume."""
    place: Place
    driver: str
    handle: str


def used_claims(services: NodeServices, pods: list[PodFile]) -> Iterator[UsedClaim]:
    """Find the claims that pods use, from what is recorded on disk. Blocks."""
    root = services.settings.root_dir
    for pod in pods:
        for one in pod.pod["spec"].get("volumes") or ():
            claim = claim_of(pod.name, one)
            if not claim or (one.get("persistentVolumeClaim") or {}).get("readOnly"):
                continue
            try:
                record = json.loads(
                    (root / "pods" / pod.uid / CLAIMS / plain_name(one["name"], "volume name")).read_bytes()
                )
                name = plain_name(str(record["name"]), "volume name")
                place = (BlockPlace if record.get("block") else FilesPlace)(root, pod.uid, name)
                known = place.record() if record["type"] == "csi" else None
            except (OSError, ValueError, KeyError, TypeError, AttributeError, UnsafeName):
                continue
            if known is not None and not known.unpublished:
                yield UsedClaim(
                    PodKey(pod.namespace, pod.name, pod.uid), claim, name, place, known.driver, known.handle
                )


class VolumeExpansion:
    """The loop; one at a time."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._pods = PodFiles(services.settings.root_dir)
        self._working: dict[tuple[str, str], asyncio.Task[None]] = {}
        """By driver and volume handle."""
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))

    async def look(self) -> None:
        """Begin to expand what has grown, unless that is still being done."""
        for key, one in (await asyncio.to_thread(self._found)).items():
            if self._services.csi.find(one.driver) is not None and key not in self._working:
                work = asyncio.create_task(self._work(one), name=f"expansion of volume {one.volume}")
                self._working[key] = work
                work.add_done_callback(partial(self._ended, key))

    async def settled(self) -> None:
        """Wait until no volume is being expanded."""
        await asyncio.gather(*self._working.values())

    def stop(self) -> None:
        """Give up what is being done; it is done again later."""
        for work in self._working.values():
            work.cancel()

    def _ended(self, key: tuple[str, str], _: asyncio.Task[None]) -> None:
        del self._working[key]

    def _found(self) -> dict[tuple[str, str], UsedClaim]:
        """Find each volume once."""
        found: dict[tuple[str, str], UsedClaim] = {}
        for one in used_claims(self._services, self._pods.all()):
            found.setdefault((one.driver, one.handle), one)
        return found

    async def _work(self, one: UsedClaim) -> None:
        """Expand a volume if it has grown; never raises."""
        try:
            async with self._turns[one.driver]:
                await self._expand(one)
        except (VolumeFailed, OSError) as error:
            message = f'NodeExpandVolume.NodeExpandVolume failed for volume "{one.volume}" : {error}'
            _log.warning("a volume was not expanded", pod=str(one.pod), volume=one.volume, err=str(error))
            self._services.volume_changed(VolumeEvent(one.pod, None, True, FAILED, message))  # noqa: FBT003 - a warning
        except (ObjectMissing, ObjectRefused, ClaimUnusable) as error:
            _log.debug("a volume's claim cannot be read", pod=str(one.pod), claim=one.claim, err=str(error))
        except Exception:  # noqa: BLE001 - a claim that nobody foresaw stops no other
            _log.exception("unexpected error while expanding a volume", pod=str(one.pod), volume=one.volume)

    async def _expand(self, one: UsedClaim) -> None:
        """Expand a volume if its claim has grown; raises VolumeFailed, OSError, ObjectMissing, ObjectRefused, ClaimUnusable."""
        from activities.volumes.csi.expansion.decision import claim_size, may_need_expansion  # noqa: PLC0415 - as above
        from activities.volumes.csi.expansion.expander import ClaimedVolume, Expander  # noqa: PLC0415 - as above
        from activities.volumes.types.csi import persistent_csi  # noqa: PLC0415 - as above

        objects, namespace = self._services.objects, one.pod.namespace
        claim = (await objects.get(ObjectKind.PERSISTENT_VOLUME_CLAIMS, namespace, one.claim)).json
        size = self._services.csi.sizes.known.setdefault((one.driver, one.handle), claim_size(claim))
        if volume_name(claim) != one.volume or not may_need_expansion(claim, size):
            return
        stored = as_migrated((await objects.get(ObjectKind.PERSISTENT_VOLUMES, "", one.volume)).json)
        volume = persistent_csi(bound_volume(one.volume, stored, claim, read_only=False))
        if (volume.driver, volume.handle) == (one.driver, one.handle):
            await Expander(self._services).expand_mounted(ClaimedVolume(one.pod, volume, one.place, claim, stored))


def expanding_volumes(services: NodeServices, every: timedelta) -> AbstractAsyncContextManager[None]:
    """Expand volumes while the block runs; a node without an API server has no claims that grow."""
    expansion = VolumeExpansion(services)

    async def run() -> None:
        try:
            await repeat(every, expansion.look)
        finally:
            expansion.stop()

    return in_background("expansion of volumes", run)
