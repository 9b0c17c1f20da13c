"""Static pods from a URL that returns a Pod or a PodList, fetched at an interval.

Started by the poller if staticPodURL is set, also on a standalone node (pkg/kubelet/config/http.go). A failed fetch or
an unreadable document changes nothing; an empty response means no pods. A list counts as a whole: one refused pod
refuses the list.
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
    """Fetches the URL."""

    async def read(self) -> bytes:
        """Return its content; raises an exception that says why not."""


@dataclass(frozen=True, slots=True)
class UrlTrouble:
    """Why the URL gives no pods now."""

    reason: str
    message: str
    pod: str = ""


class UrlSource:
    """Follows one URL while `listings` is iterated."""

    def __init__(self, url: str, fetch: Reads, every: timedelta, node: NodeOfManifests) -> None:
        self._url, self._fetch, self._every, self._node = url, fetch, every, node
        self._place = place_of(url)
        self._digest = b""
        self._listing = Listing(readable=False)

    async def listings(self) -> AsyncGenerator[Listing, None]:
        """Yield a listing after each fetch; never ends."""
        while True:
            self._listing = await self.look(datetime.now(UTC))
            yield self._listing
            await asyncio.sleep(self._every.total_seconds())

    async def look(self, now: datetime) -> Listing:
        """Fetch it once and return what it lists; on failure, what it listed before."""
        try:
            data = await self._fetch.read()
        except Exception as error:  # noqa: BLE001 - the URL is fetched again
            return self._unchanged(UrlTrouble("ManifestURLUnreadable", str(error) or type(error).__name__), now)
        digest = (await asyncio.to_thread(hashlib.sha256, data)).digest()
        if digest == self._digest:
            return replace(self._listing, refusals=tuple(one for one in self._listing.refusals if not _fetching(one)))
        try:
            found = await asyncio.to_thread(self._read, data, now)
        except Exception as error:  # noqa: BLE001 - the URL is fetched again, and other sources go on
            found = UrlTrouble("ManifestNotJudged", f"{type(error).__name__}: {error}"[:500])
        self._digest = digest
        return self._unchanged(found, now) if isinstance(found, UrlTrouble) else Listing(pods=found)

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

    def _unchanged(self, trouble: UrlTrouble, now: datetime) -> Listing:
        """Keep what was listed, and report why there is nothing newer."""
        before = next((one for one in self._listing.refusals if one.message == trouble.message), None)
        since = before.since if before else now.isoformat(timespec="seconds")
        refusal = Refusal(
            self._place, trouble.reason, trouble.message, since, trouble.pod, pod_kept=bool(self._listing.pods)
        )
        refused = (one for one in self._listing.refusals if _fetching(refusal) and not _fetching(one))
        return replace(self._listing, refusals=(*refused, refusal))


def documents_of(document: Any) -> Sequence[Mapping[str, Any]]:
    """Return the pods of a Pod or a PodList; raises ManifestUnreadable for anything else."""
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
    """Format a URL without possible credentials: user, password, query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def _fetching(refusal: Refusal) -> bool:
    return refusal.reason == "ManifestURLUnreadable"
