"""Asks for the certificates of pods, keeps the newest of each in memory, renews it, and signals the pods' workflows.

The rules are pkg/kubelet/podcertificate IssuingManager. A projection is looked at when a volume is mounted, when its request
changes, and each minute or two. Nothing is kept over a restart: then all certificates are asked for anew, as by the kubelet, and
the volumes keep the old files meanwhile.
"""

import asyncio
import contextlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import structlog

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.resources import NODES, SERVICE_ACCOUNTS
from activities.execution.one_by_one import one_by_one
from activities.objects.objects import StoredObject
from activities.objects.pod_certificates import PodCertificate, PodCertificateRefused, WantedCertificate
from activities.objects.tokens import BoundPod
from proto.kubernetes.contents.projections import pod_certificate_key
from proto.pod_snapshot import PodSnapshot, has_ended
from proto.temporal.failure_types import FAILED_MOUNT
from proto.temporal.mounted import UNKNOWN
from proto.temporal.signals import ObjectsChanged
from worker.api_objects.change_signals import SOURCE, SendSignal
from worker.api_objects.informer import Informer
from worker.pod_certificates.keys import key_and_proof
from worker.pod_certificates.record import DELETED_AFTER, NOT_YET, Asked, Record, refusal_event
from worker.pod_certificates.requests import REQUESTS, new_request

EVERY: Final = timedelta(minutes=1)
"""Between two looks at everything; up to twice as long, so that nodes do not act together."""
JITTER: Final = timedelta(minutes=5)
"""A certificate is renewed up to so long after the time that its signer names."""
AWAITED: Final = timedelta(seconds=3)
"""How long a mount waits for a signer: many answer at once."""
FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=5)
"""Between two tries to make a request."""
AT_ONCE: Final = 2
"""Keys that are made at a time: one of RSA takes seconds of a core."""
UNUSED_FOR: Final = timedelta(minutes=10)
"""A pod that was never listed, and whose volume was not mounted for so long, is forgotten."""
SIGNALLED_AGAIN: Final = timedelta(minutes=10)
"""A pod that still shows an older certificate is signalled again after that."""
SETTLE: Final = 0.05
"""Seconds to wait after a change, for related ones come together."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_NAME: Final = re.compile(r'"req-[a-z0-9]+" ')
"""Of a request: another one at each try, which would be another event each time."""
_log: Final = structlog.get_logger(__name__)
Place = tuple[str, str, int]
States = Mapping[tuple[str, str], int]
"""How many projections there are, by signer and state."""


class Reports(Protocol):
    """Tells others."""

    def warn(self, pod: BoundPod, reason: str, message: str) -> None:
        """Record an event of a pod."""
        ...

    def show(self, states: States) -> None:
        """Show the states in metrics."""
        ...


@dataclass(slots=True)
class _Kept:
    """A projection, and what is known of it."""

    wanted: WantedCertificate
    used_at: datetime
    is_listed: bool = False
    """Its pod was among those of the node."""
    record: Record = field(default_factory=Record)
    told: set[str] = field(default_factory=set)
    """Reasons of events about its age."""
    trouble: str = ""
    pause: timedelta = FIRST_PAUSE
    not_before: datetime = _LONG_AGO
    """When a request that could not be made is tried again."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    answered: asyncio.Event = field(default_factory=asyncio.Event)


class PodCertificates:
    """Those of one node; used from one event loop."""

    def __init__(
        self,
        api: ApiServer,
        node: str,
        reports: Reports,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], timedelta] = lambda: JITTER * random.random(),  # noqa: S311 - no secret
    ) -> None:
        """Take the node's name, and who is told of events and states."""
        self._api, self._node, self._reports, self._now, self._jitter = api, node, reports, now, jitter
        self._kept: dict[Place, _Kept] = {}
        self._changed = asyncio.Event()
        self._requests = Informer(api, REQUESTS, self._changed.set, _needed, field_selector=f"spec.nodeName={node}")
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._signalled: dict[tuple[str, str], tuple[str, datetime]] = {}
        """By workflow id and key: the version that was signalled last, and when."""

    async def certificate(self, wanted: WantedCertificate) -> PodCertificate:
        """Return the newest certificate, and ask for one if there is none; raises PodCertificateRefused."""
        kept = self._of(wanted)
        kept.used_at = self._now()
        await self._look_at(kept)
        if not kept.trouble:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AWAITED.total_seconds()):
                    await kept.answered.wait()
        try:
            return kept.record.certificate()
        except PodCertificateRefused as refused:
            if kept.trouble and str(refused) == NOT_YET:
                raise PodCertificateRefused(f"{NOT_YET}: {kept.trouble}") from None
            raise

    async def run(self, pods: Callable[[], Iterable[PodSnapshot]], send_signal: SendSignal) -> None:
        """Follow requests, renew what is due and signal pods, until cancelled."""
        try:
            while True:
                self._changed.clear()
                await self.look(list(pods()), send_signal)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._wait().total_seconds()):  # wait_for may swallow a cancellation
                        await self._changed.wait()
                await asyncio.sleep(SETTLE)
        finally:
            await self._requests.stop()

    async def look(self, pods: Iterable[PodSnapshot], send_signal: SendSignal) -> None:
        """Look at every projection once, and signal the pods that show an older certificate."""
        pods = list(pods)
        found = one_by_one("certificates of pods", pods, lambda one: list(projections(one)), lambda one: one.uid)
        shown = [(pod, wanted) for pod, several in found for wanted in several]
        for _, wanted in shown:
            self._of(wanted).is_listed = True
        had_some = bool(self._kept)
        self._forget({wanted.place for _, wanted in shown})
        if had_some:
            await asyncio.gather(*map(self._look_at, list(self._kept.values())))
            self._reports.show(self.states())
        for pod, wanted in shown:
            self._tell_refused_renewal(pod, wanted)
        await asyncio.gather(*(self._signal(pod, wanted, send_signal) for pod, wanted in shown))

    def states(self) -> States:
        """Count the projections."""
        now, counts = self._now(), dict[tuple[str, str], int]()
        for one in self._kept.values():
            name = str(one.wanted.source.get("signerName") or ""), one.record.state(now)
            counts[name] = counts.get(name, 0) + 1
        return counts

    def _of(self, wanted: WantedCertificate) -> _Kept:
        if wanted.place not in self._kept:
            self._kept[wanted.place] = _Kept(wanted, self._now())
            self._changed.set()
        return self._kept[wanted.place]

    def _forget(self, places: set[Place]) -> None:
        """Forget pods that are over or gone; one whose volumes are mounted now may not be listed yet."""
        oldest = self._now() - UNUSED_FOR
        self._kept = {
            place: one
            for place, one in self._kept.items()
            if place in places or (not one.is_listed and one.used_at > oldest)
        }

    def _tell_refused_renewal(self, pod: PodSnapshot, wanted: WantedCertificate) -> None:
        """Tell at each look of a pod that keeps an old certificate for good: a kubelet fails to mount the volume again."""
        refusal = self._kept[wanted.place].record.refusal
        shown = pod.objects.get(pod_certificate_key(wanted.volume, wanted.index), UNKNOWN)
        if refusal and shown != UNKNOWN:  # else the mount that waits for it says why
            message = f'MountVolume.SetUp failed for volume "{wanted.volume}" : {refusal}'
            self._reports.warn(wanted.pod, FAILED_MOUNT, message)

    def _wait(self) -> timedelta:
        now = self._now()
        due = [
            max(one.not_before, one.record.fresh.begin_refresh_at if one.record.fresh else now)
            for one in self._kept.values()
            if not one.record.asked and not one.record.refused
        ]
        longest = EVERY * random.uniform(1, 2)  # noqa: S311 - no secret
        return max(min([longest, *(one - now for one in due)]), FIRST_PAUSE / 10)

    async def _look_at(self, kept: _Kept) -> None:
        """Take the answer of a signer, and make a request if one is due; what fails is tried again."""
        async with kept.turn:
            now = self._now()
            if now < kept.not_before:
                return
            try:
                await self._step(kept, now)
            except Exception as error:  # noqa: BLE001 - the API server is away or refuses, or the answer is malformed: other pods go on
                where = f"{kept.wanted.pod.namespace}/{kept.wanted.pod.name}"
                _log.warning(
                    "a certificate of a pod cannot be had now", pod=where, volume=kept.wanted.volume, err=str(error)
                )
                kept.trouble, kept.not_before = _NAME.sub("", str(error)), now + kept.pause
                kept.pause = min(kept.pause * 2, LONGEST_PAUSE)
            else:
                kept.trouble, kept.pause = "", FIRST_PAUSE
            if kept.record.fresh or kept.record.refused:
                kept.answered.set()

    async def _step(self, kept: _Kept, now: datetime) -> None:
        pod, asked = kept.wanted.pod, kept.record.asked
        if asked is not None:
            known = await self._known()
            request = known.get((pod.namespace, asked.name))
            kept.record = kept.record.read(request.json if request else None, now, self._jitter())
            if kept.record.refused is not None:
                message = refusal_event(pod.namespace, asked.name, kept.record.refused)
                self._reports.warn(pod, kept.record.refused.kind, message)
        for reason, message in kept.record.events(now):
            if reason not in kept.told:
                kept.told.add(reason)
                self._reports.warn(pod, reason, message)
        if kept.record.fresh is not None and not kept.record.events(now):
            kept.told.clear()
        if kept.record.needs_request(now):
            await self._ask(kept)

    async def _known(self) -> Mapping[tuple[str, str], StoredObject]:
        """Return the requests of this node; raises NotSynced before the first list, which is tried again."""
        return await self._requests.all()

    async def _ask(self, kept: _Kept) -> None:
        """Make a request."""
        wanted = kept.wanted
        self._requests.follow()
        async with self._turns:
            account = await self._uid(SERVICE_ACCOUNTS.path(wanted.service_account, namespace=wanted.pod.namespace))
            node = await self._uid(NODES.path(self._node))
            key, proof = await asyncio.to_thread(key_and_proof, str(wanted.source.get("keyType") or ""))
            made = await self._api.create(
                REQUESTS.path(namespace=wanted.pod.namespace),
                new_request(wanted, service_account_uid=account, node=(self._node, node), proof=proof),
            )
        metadata = made["metadata"]
        abandon_at = datetime.fromisoformat(metadata["creationTimestamp"]) + DELETED_AFTER + self._jitter()
        kept.record = Record(Asked(str(metadata["name"]), key, abandon_at), kept.record.fresh)

    async def _uid(self, path: str) -> str:
        return str((await self._api.get(path))["metadata"]["uid"])

    async def _signal(self, pod: PodSnapshot, wanted: WantedCertificate, send_signal: SendSignal) -> None:
        """Have a pod's workflow write a newer certificate, or mount a volume that waits for it."""
        fresh = self._kept[wanted.place].record.fresh
        key = pod_certificate_key(wanted.volume, wanted.index)
        name, shown = (pod.workflow_id, key), pod.objects.get(key)
        if fresh is None or shown is None or shown == (version := fresh.certificate.version):
            self._signalled.pop(name, None)
            return
        before, at = self._signalled.get(name, ("", _LONG_AGO))
        if before == version and self._now() < at + SIGNALLED_AGAIN:
            return
        try:
            await send_signal(pod.workflow_id, ObjectsChanged(SOURCE, {key: version}))
        except Exception as error:  # noqa: BLE001 - Temporal is away, or a defect: signalled at the next look
            _log.warning("a pod could not be signalled about its certificate", workflow=pod.workflow_id, err=str(error))
            return
        self._signalled[name] = version, self._now()


def projections(pod: PodSnapshot) -> Iterator[WantedCertificate]:
    """Yield the podCertificate projections of a pod that goes on."""
    if pod.deleting or has_ended(pod):
        return
    spec: Mapping[str, Any] = pod.pod.get("spec") or {}
    bound = BoundPod(pod.namespace, pod.name, pod.uid)
    account = str(spec.get("serviceAccountName") or "")
    for volume in spec.get("volumes") or ():
        for index, projection in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source := projection.get("podCertificate"):
                yield WantedCertificate(bound, account, str(volume["name"]), index, source)


def _needed(found: dict[str, Any]) -> dict[str, Any]:
    """Keep of a request what is read."""
    names = ("name", "namespace", "resourceVersion", "uid")
    metadata = {name: found["metadata"].get(name, "") for name in names}
    return {"metadata": metadata, "status": found.get("status") or {}}
