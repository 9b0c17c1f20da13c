"""Expands a volume on the node: asks its driver, and keeps the claim's status and events (operationexecutor/node_expander.go).

Used while a volume is mounted (`activities/volumes/types/csi.py`) and while it is published
(`worker/host/csi/volume_expansion.py`), in a cluster only: without an API server no claim has a status. May run twice, late or
after a crash: a volume that has its size is expanded again, which CSI allows.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from activities.clients.api_server.api_server import MERGE_PATCH
from activities.clients.api_server.errors import ApiAway, ApiRefused
from activities.clients.api_server.resources import PERSISTENT_VOLUME_CLAIMS
from activities.clients.csi_driver import CsiError, CsiNode
from activities.volumes.csi.drivers.requests import EXPANDS, VolumeRequest, expand_request
from activities.volumes.csi.drivers.secrets import read_secret
from activities.volumes.csi.expansion import claim_status
from activities.volumes.csi.expansion.decision import (
    Expansion,
    Failure,
    Verdict,
    claim_size,
    failure_of,
    needed_expansion,
)
from activities.volumes.csi.node_volumes import NodeVolumes
from activities.volumes.csi.records.places import Place
from activities.volumes.csi.records.volume import CsiVolume
from activities.volumes.plugin.services import VolumeServices
from activities.volumes.plugin.volume_type import VolumeFailed
from proto.temporal.pod import PodKey
from proto.volume_events import VolumeEvent

SUCCEEDED: Final = "FileSystemResizeSuccessful"
FAILED: Final = "FileSystemResizeFailed"
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClaimedVolume:
    """A volume of a pod, and the objects that say its size."""

    pod: PodKey
    volume: CsiVolume
    place: Place
    claim: Mapping[str, Any]
    persistent: Mapping[str, Any]
    in_use: bool = False
    """The pod has it already."""

    @property
    def key(self) -> tuple[str, str]:
        """The volume's identity on this node."""
        return self.volume.driver, self.volume.handle


class Expander:
    """Expands volumes of this node."""

    def __init__(self, services: VolumeServices) -> None:
        self._services, self._sizes = services, services.csi.sizes

    async def expand_mounting(self, one: ClaimedVolume) -> None:
        """Expand a volume that was just published for a pod, if it has to be; raises VolumeFailed and OSError."""
        needed = needed_expansion(one.persistent, one.claim, read_only=one.volume.read_only)
        if needed.verdict is Verdict.READ_ONLY:
            self._tell(one, FAILED, "MountVolume.NodeExpandVolume failed", "requested read-only file system", bad=True)
        elif needed.verdict is Verdict.EXPAND:
            await self._expand(one, needed)

    async def expand_mounted(self, one: ClaimedVolume) -> None:
        """Expand a volume that a pod uses, if it has to be; raises VolumeFailed and OSError."""
        size = self._sizes.known.setdefault(one.key, claim_size(one.claim))
        needed = needed_expansion(one.persistent, one.claim, mounted_size=size, read_only=one.volume.read_only)
        if needed.verdict is Verdict.DONE:
            self._sizes.known[one.key] = needed.bytes
        elif needed.verdict is Verdict.EXPAND and one.key not in self._sizes.in_use:
            await self._expand(replace(one, in_use=True), needed)

    async def _expand(self, one: ClaimedVolume, needed: Expansion) -> None:
        """Ask the driver, unless the pod has lost the volume meanwhile."""
        async with (
            NodeVolumes(self._services).driver(one.volume.driver, "Expander.NodeExpand failed") as node,
            self._services.locks.hold(one.volume.lock),
        ):
            if await asyncio.to_thread(one.place.record) is None:
                return
            claim = one.claim
            if needed.follows_status and not needed.known:
                claim = await self._patched(one, claim_status.in_progress(claim))
            try:
                if not await self._ask(node, one, claim, needed):
                    self._sizes.known[one.key] = needed.bytes
                    return
            except CsiError as error:
                await self._failed(one, claim, needed, error)
                return
            self._sizes.known[one.key] = needed.bytes
            self._sizes.failed.discard(one.key)
            node_name = self._services.settings.node_name
            self._tell(one, SUCCEEDED, "MountVolume.NodeExpandVolume succeeded", node_name)
            if not needed.known:
                await self._patched(one, claim_status.finished(claim, needed.size))

    async def _ask(self, node: CsiNode, one: ClaimedVolume, claim: Mapping[str, Any], needed: Expansion) -> bool:
        """Let the driver expand it; False if it need not. Raises CsiError, and VolumeFailed if it cannot but has to."""
        able = await node.capabilities()
        asking = VolumeRequest(volume=one.volume, able=able)
        if EXPANDS not in able:
            if needed.known or not needed.follows_status:
                return False
            why = f"NodeExpand is not supported by the CSI driver {one.volume.driver}"
            await self._record_failure(one, claim, needed, why)
            raise VolumeFailed(why)
        secrets = await read_secret(self._services.objects, one.volume.expand_secret, "NodeExpandSecretRef")
        untold = one.volume.block and not one.in_use and not asking.stages  # what SetUpDevice answers (csi_block.go)
        staging = "" if untold else str(one.place.staging(*one.key))
        await node.expand(expand_request(asking, (staging, str(one.place.target)), needed.bytes, secrets))
        return True

    async def _failed(self, one: ClaimedVolume, claim: Mapping[str, Any], needed: Expansion, error: CsiError) -> None:
        """Record a failure in the claim; raises VolumeFailed unless the pod can go on."""
        meaning = failure_of(error.code_name, is_final=error.is_final)
        colon = "" if meaning is Failure.INFEASIBLE else " :"
        why = f"Expander.NodeExpand failed to expand the volume{colon} {error}"
        if meaning is not Failure.TRIED_AGAIN and needed.follows_status:
            await self._record_failure(one, claim, needed, why, infeasible=meaning is Failure.INFEASIBLE)
        if meaning is Failure.IN_USE:
            self._sizes.in_use.add(one.key)
            _log.warning(
                "a volume cannot be expanded while it is used", pod=str(one.pod), volume=one.volume.name, err=why
            )
            return
        raise VolumeFailed(why)

    async def _record_failure(
        self, one: ClaimedVolume, claim: Mapping[str, Any], needed: Expansion, why: str, *, infeasible: bool = False
    ) -> None:
        """Say in the claim why it was not expanded; after a second failure of a size that nobody wants any more, for good."""
        repeated = needed.other_size_asked and one.key in self._sizes.failed
        self._sizes.failed.add(one.key)
        try:
            await self._patched(one, claim_status.failed(claim, why, _now(), infeasible=infeasible or repeated))
        except VolumeFailed as unwritten:
            _log.warning("a claim's status cannot say why its expansion failed", pod=str(one.pod), err=str(unwritten))

    async def _patched(self, one: ClaimedVolume, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Patch the claim's status; returns the claim. Raises VolumeFailed."""
        api, metadata = self._services.api, one.claim["metadata"]
        assert api is not None
        path = PERSISTENT_VOLUME_CLAIMS.path(metadata["name"], namespace=metadata["namespace"], sub="status")
        try:
            claim: Mapping[str, Any] = await api.patch(path, patch, kind=MERGE_PATCH)
        except (ApiAway, ApiRefused) as error:
            raise VolumeFailed(f"patchPVCStatus failed to patch PVC {metadata['name']!r}: {error}") from error
        return claim

    def _tell(self, one: ClaimedVolume, reason: str, doing: str, suffix: str, *, bad: bool = False) -> None:
        """Tell an event of the pod and of its claim."""
        message = f'{doing} for volume "{one.volume.name}" {suffix}'
        metadata = one.claim["metadata"]
        claim = (metadata["namespace"], metadata["name"], str(metadata.get("uid") or ""))
        self._services.volume_changed(VolumeEvent(one.pod, claim, bad, reason, message))


def _now() -> datetime:
    return datetime.now(UTC)
