"""All pods of this node, whatever source lists them: what the rest of the poller asks about one.

Which source a pod is from stands in its snapshot; one without (its workflow began a moment before the poller did) is a
manifest's when a manifest lists its uid, else the API's when its uid looks like one of those.
"""

import re
from collections.abc import Iterable
from typing import Final

from proto.temporal.names import API_SOURCE, PodWorkflowId
from worker.poller.calls.pod_workflows import OpenPod
from worker.poller.cluster.api_pods import ApiPods
from worker.poller.manifests.manifest_pods import ManifestPods

_API_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class NodePods:
    """The listers of one node, as one."""

    def __init__(self, manifests: ManifestPods, api: ApiPods | None = None) -> None:
        self._manifests, self._api = manifests, api

    def set_open(self, found: Iterable[OpenPod], asked_at: float) -> None:
        """Tell each lister which of its pods are open."""
        of_api: list[OpenPod] = []
        of_manifests: list[OpenPod] = []
        for pod in found:
            (of_api if self._api and self._is_api(pod.id.uid, pod.source) else of_manifests).append(pod)
        self._manifests.set_open(of_manifests, asked_at)
        if self._api:
            self._api.set_open(of_api, asked_at)

    def lost(self, workflow_id: str) -> None:
        """Take that this workflow does not exist: start it again where its pod is wanted."""
        self._manifests.lost(workflow_id)
        if self._api:
            self._api.lost(PodWorkflowId.parse(workflow_id).uid)

    def is_going(self, workflow_id: str) -> bool:
        """Say whether we asked this pod to go."""
        asked = self._manifests.is_going(workflow_id)
        return asked or bool(self._api and self._api.is_going(PodWorkflowId.parse(workflow_id).uid))

    def may_want(self, uid: str, path: str = "", source: str = "") -> bool:
        """Say whether a source lists this pod, or one that can't be read just now may."""
        if self._api and self._is_api(uid, source):
            return self._api.may_want(uid)
        return self._manifests.may_want(uid, path, source)

    async def close(self) -> None:
        """Stop calling."""
        await self._manifests.close()
        if self._api:
            await self._api.close()

    def _is_api(self, uid: str, source: str) -> bool:
        if source:
            return source == API_SOURCE
        if self._api is None or self._manifests.wants(uid):
            return False
        return self._api.knows(uid) or bool(_API_UID.fullmatch(uid))
