"""Decides whether a pod may use an image on the node, and keeps the pull records for that.

Not used without the feature gate KubeletEnsureSecretPulledImages. `verification` has the decisions and `pull_records`
the files; this module has their order, and keeps blocking calls off the event loop.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from activities.images.access.pull_records import PullRecords
from activities.images.access.record_format import AccountRight, Rights, SecretRight
from activities.images.access.verification import (
    Standing,
    Verification,
    judge,
    name_of,
    standing,
    why_denied,
)
from activities.images.credentials.keyring import AccountSource, Credential

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class PullRights:
    """The node's pull records and the policy by which they are used."""

    records: PullRecords
    verification: Verification = field(default_factory=Verification)
    _loaded: bool = False
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _in_flight: Counter[str] = field(default_factory=Counter)
    _settling: set[asyncio.Task[None]] = field(default_factory=set)

    async def ready(self, image_ref: Callable[[str], Awaitable[str]]) -> None:
        """Read the records, once, and drop those that an operator has removed since; raises OSError.

        If an earlier worker had started a pull and its image is on the node (`image_ref`), its credentials are
        unknown, so every pod is verified (image_pull_manager.go initialize).
        """
        if self._loaded:
            await self._follow_the_disk()
            return
        async with self._changing:
            if not self._loaded:
                await asyncio.to_thread(self.records.load)
                for image in self.records.intents():
                    if ref := await image_ref(image):
                        await asyncio.to_thread(self.records.pulled, image, ref, None)
                        await asyncio.to_thread(self.records.forget_intent, image)
                self._loaded = True

    async def _follow_the_disk(self) -> None:
        """Drop what others have removed; an intent of a pull under way is written again."""
        if not any(await asyncio.to_thread(self.records.removed)):
            return
        async with self._changing:  # so that files being written or removed here are not mistaken
            intents, pulled = await asyncio.to_thread(self.records.removed)
            for image in self.records.forget_removed(intents, pulled, self._in_flight):
                await asyncio.to_thread(self.records.intend, image)

    def why_denied(self, image: str, image_ref: str) -> str:
        """Explain why an image on the node may not be used; from memory."""
        return why_denied(image, self.records.known(image, image_ref))

    def standing(self, image: str, image_ref: str) -> Standing:
        """Judge an image on the node without the pod's logins; from memory."""
        return standing(self.verification, image, self.records.known(image, image_ref))

    async def allows(self, image: str, image_ref: str, shown: Rights) -> bool:
        """Report whether a pod's secrets or its service account give access to an image, and record new secrets."""
        record = self.records.known(image, image_ref).record
        rights = record.rights.get(name_of(image)) if record else None
        judged = judge(rights or Rights(), shown)
        if judged.remember and self.records.remember(image, image_ref, judged.remember):
            await self._save(image_ref)
        return judged.allowed

    async def intend(self, image: str) -> None:
        """Write the intent of a pull; raises OSError, and then nothing may be pulled."""
        async with self._changing:
            await asyncio.to_thread(self.records.intend, image)
            self._in_flight[image] += 1

    def pulled(self, image: str, image_ref: str, used: Credential | None) -> None:
        """Record a finished pull in memory at once; the intent stays until the record is on disk."""
        news = self.records.remember(image, image_ref, rights_of(used))
        task = asyncio.create_task(self._settle(image, image_ref, news=news), name=f"record the pull of {image}")
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def flushed(self) -> None:
        """Wait until everything is on disk."""
        await asyncio.gather(*self._settling)

    async def _settle(self, image: str, image_ref: str, *, news: bool) -> None:
        if not news or await self._save(image_ref):
            await self.pull_failed(image)
        else:
            self.unknown(image)

    async def pull_failed(self, image: str) -> None:
        """Remove the intent of a pull that failed, unless another one of the same image is under way."""
        async with self._changing:
            self.unknown(image)
            if not self._in_flight[image]:
                try:
                    await asyncio.to_thread(self.records.forget_intent, image)
                except OSError as error:
                    _log.warning("the intent of a pull of %s cannot be removed: %s", image, error.strerror)

    def unknown(self, image: str) -> None:
        """Keep the intent of a pull with an unknown outcome: the runtime may still finish it."""
        self._in_flight[image] -= 1
        if self._in_flight[image] <= 0:
            del self._in_flight[image]

    async def prune(self, image_refs: Collection[str], until: datetime) -> None:
        """Drop records of images that are gone: all but these, and but for those changed after `until`."""
        if self._loaded:
            async with self._changing:
                await asyncio.to_thread(self.records.prune, image_refs, until)

    async def _save(self, image_ref: str) -> bool:
        async with self._changing:
            try:
                await asyncio.to_thread(self.records.save, image_ref)
            except OSError as error:
                _log.warning("the record of the image %s cannot be written: %s", image_ref, error.strerror)
                return False
            return True


def rights_of(used: Credential | None) -> Rights:
    """Return the rights that a pull with this login proves (image_manager.go trackedToImagePullCreds)."""
    if used is None or used.source is None:
        return Rights(everyone=True)
    source = used.source
    if isinstance(source, AccountSource):
        return Rights(service_accounts=(AccountRight(source.namespace, source.name, source.uid),))
    return Rights((SecretRight(source.namespace, source.name, source.uid, used.login.digest()),))
