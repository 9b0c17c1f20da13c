"""Where static pods come from besides files: one URL that gives a Pod or a PodList, looked at again and again.

Started by `run` where staticPodURL is set, also on a standalone node (pkg/kubelet/config/http.go). What cannot be fetched or read
changes nothing, an empty answer means no pods. A list is taken as a whole: one pod in it that is refused refuses the list.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from proto.refusals import Refusal
from worker.documents.manifest_document import read_document
from worker.documents.manifest_refusal import ManifestUnreadable
from worker.poller.manifests.manifest import NodeOfManifests, read_pod
from worker.poller.manifests.manifest_folder import Listing
from worker.poller.manifests.static_pod import Refused, StaticPod

_POD: Final = {"apiVersion": "v1", "kind": "Pod"}


class Reads(Protocol):
    """What fetches the URL."""

    async def read(self) -> bytes:
        """Give what it says; raises an exception that says why not."""


@dataclass(frozen=True, slots=True)
class UrlTrouble:
    """Why the URL gives no pods now."""

    reason: str
    message: str
    pod: str = ""


class UrlSource:
    """Follows one URL for as long as `listings` is iterated."""

    def __init__(self, url: str, fetch: Reads, every: timedelta, node: NodeOfManifests) -> None:
        self._url, self._fetch, self._every, self._node = url, fetch, every, node
        self._place = place_of(url)
        self._digest = b""
        self._listing = Listing(readable=False)

    async def listings(self) -> AsyncGenerator[Listing, None]:
        """Give a listing after each look; never ends by itself."""
        while True:
            self._listing = await self.look(datetime.now(UTC))
            yield self._listing
            await asyncio.sleep(self._every.total_seconds())

    async def look(self, now: datetime) -> Listing:
        """Fetch it once and say what it lists; what it listed before stays where it gives nothing."""
        try:
            data = await self._fetch.read()
        except Exception as error:  # noqa: BLE001 - whatever it is, the URL is looked at again
            return self._kept(UrlTrouble("ManifestURLUnreadable", str(error) or type(error).__name__), now)
        digest = hashlib.sha256(data).digest()
        if digest == self._digest:
            return replace(self._listing, refusals=tuple(one for one in self._listing.refusals if not _fetching(one)))
        found = await asyncio.to_thread(self._read, data, now)
        self._digest = digest
        return self._kept(found, now) if isinstance(found, UrlTrouble) else Listing(pods=found)

    def _read(self, data: bytes, now: datetime) -> dict[str, StaticPod] | UrlTrouble:
        if not data.strip():
            return {}
        try:
            documents = documents_of(read_document(data, "a Pod or PodList of apiVersion v1"))
        except ManifestUnreadable as error:
            return UrlTrouble(error.reason, str(error))
        pods: dict[str, StaticPod] = {}
        for document in documents:
            found = read_pod(self._place, document, self._node, now, url=self._url)
            if isinstance(found, Refused):
                return UrlTrouble(found.reason, found.message, found.pod)
            name = f"{found.namespace}/{found.name}"
            if name in pods:
                return UrlTrouble("DuplicatePodName", f"pod {name} is listed twice", name)
            pods[name] = found
        return pods

    def _kept(self, trouble: UrlTrouble, now: datetime) -> Listing:
        """Go on with what was listed, and say why nothing newer is."""
        before = next((one for one in self._listing.refusals if one.message == trouble.message), None)
        since = before.since if before else now.isoformat(timespec="seconds")
        refusal = Refusal(
            self._place, trouble.reason, trouble.message, since, trouble.pod, pod_kept=bool(self._listing.pods)
        )
        refused = (one for one in self._listing.refusals if _fetching(refusal) and not _fetching(one))
        return replace(self._listing, refusals=(*refused, refusal))


def documents_of(document: Any) -> Sequence[Mapping[str, Any]]:
    """Give the pods of a Pod or a PodList; raises ManifestUnreadable for anything else."""
    if not isinstance(document, dict):
        raise ManifestUnreadable(
            "NotAPod", "a Pod or PodList of apiVersion v1 is expected, not a list or a single value"
        )
    if document.get("kind") not in {"PodList", "List"}:
        return (document,)
    items = document.get("items") or []
    if document.get("apiVersion") != "v1" or not isinstance(items, list):
        raise ManifestUnreadable("NotAPod", "a PodList of apiVersion v1 has a list of pods as its items")
    if any(not isinstance(one, dict) for one in items):
        raise ManifestUnreadable("NotAPod", "items: each is a Pod of apiVersion v1")
    return tuple({**_POD, **one} for one in items)


def place_of(url: str) -> str:
    """Write a URL without what may be a credential: user, password, query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def _fetching(refusal: Refusal) -> bool:
    return refusal.reason == "ManifestURLUnreadable"
