"""All pods of this node, whatever their source.

A pod's source is in its snapshot. Without a snapshot (its workflow started just before the poller) the pod belongs to
the manifests if one lists its uid, otherwise to the API if its uid looks like one of the API's.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final

from proto.temporal.names import API_SOURCE, PodWorkflowId
from worker.poller.calls.open_workflows import OpenPod
from worker.poller.cluster.api_pods import ApiPods
from worker.poller.manifests.manifest_pods import ManifestPods
from worker.poller.runtime.known_pods import KnownPods

_API_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class NodePods:
    """Manifest pods and API pods of one node as one."""

    def __init__(self, manifests: ManifestPods, api: ApiPods | None = None) -> None:
        self._manifests, self._api = manifests, api

    def set_open(self, found: Iterable[OpenPod], asked_at: float) -> None:
        """Pass each source those of its pods that are open."""
        of_api: list[OpenPod] = []
        of_manifests: list[OpenPod] = []
        for pod in found:
            (of_api if self._api and self._is_api(pod.id.uid, pod.source) else of_manifests).append(pod)
        self._manifests.set_open(of_manifests, asked_at)
        if self._api:
            self._api.set_open(of_api, asked_at)

    def lost(self, workflow_id: str) -> None:
        """Record that this workflow does not exist: start it again if its pod is listed."""
        self._manifests.lost(workflow_id)
        if self._api:
            self._api.lost(PodWorkflowId.parse(workflow_id).uid)

    def tell_anew(self, workflow_ids: Collection[str]) -> None:
        """Tell everything again to pods whose lead has changed."""
        self._manifests.tell_anew(workflow_ids)
        if self._api:
            self._api.tell_anew([PodWorkflowId.parse(one).uid for one in workflow_ids])

    def deletion_requested(self, workflow_id: str) -> bool:
        """Report whether we requested the deletion of this pod."""
        asked = self._manifests.deletion_requested(workflow_id)
        return asked or bool(self._api and self._api.deletion_requested(PodWorkflowId.parse(workflow_id).uid))

    def may_list(self, uid: str, path: str = "", source: str = "") -> bool:
        """Report whether a source lists this pod, or one that cannot be read just now may."""
        if self._api and self._is_api(uid, source):
            return self._api.may_list(uid)
        return self._manifests.may_list(uid, path, source)

    @property
    def listed(self) -> bool:
        """Whether every source has listed its pods."""
        return self._manifests.listed and (self._api is None or self._api.listed)

    def resized(self, uid: str) -> None:
        """Tell a pod that it is granted other resources, or why not."""
        self._manifests.resized(uid)
        if self._api:
            self._api.resized(uid)

    async def close(self) -> None:
        """Stop calling."""
        await self._manifests.close()
        if self._api:
            await self._api.close()

    def _is_api(self, uid: str, source: str) -> bool:
        if source:
            return source == API_SOURCE
        if self._api is None or self._manifests.lists(uid):
            return False
        return self._api.knows(uid) or bool(_API_UID.fullmatch(uid))


def may_be_listed(known: KnownPods, pods: NodePods, uid: str) -> bool:
    """Report whether a source lists a pod or may list it, by what its snapshot says of its source."""
    snapshot = known.of(uid)
    return pods.may_list(uid, snapshot.path, snapshot.source) if snapshot else pods.may_list(uid)
