"""Renews the tokens in volumes before they expire, and signals the pods' workflows, which write them.

Run by `cluster_objects`. A token's version contains its expiry, and the snapshots contain the version, so there is no other
state to keep. A failed renewal is retried every minute without an event in history, and the pod keeps the old token
(pkg/kubelet/token/token_manager.go).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from activities.execution.one_by_one import log_bad_item
from activities.objects.tokens import BoundPod, TokenSource, TokenSpec, due, pod_token_spec
from proto.kubernetes.contents.projections import TOKENS, audience_of
from proto.pod_snapshot import PodSnapshot
from proto.temporal.signals import ObjectsChanged
from worker.api_objects.change_signals import SOURCE, SendSignal
from worker.api_objects.tokens import seed_of

AGAIN: Final = timedelta(minutes=1)
"""Between two tries to renew a token, as between two syncs of a pod."""
LONGEST: Final = timedelta(hours=1)
"""Until the next check if no token is mounted."""
LOOK: Final = timedelta(minutes=1)
"""The longest wait: the clock may be set meanwhile, and a suspended machine does not count the time."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MountedToken:
    """A token in a pod's volume, and when it is to be renewed."""

    pod: PodSnapshot
    key: str
    version: str
    wanted: TokenSpec
    due: datetime


def mounted_tokens(pods: Iterable[PodSnapshot]) -> Iterator[MountedToken]:
    """Yield the tokens in volumes of pods that are not terminating."""
    for pod in pods:
        for key, version in pod.objects.items():
            if pod.deleting or not key.startswith(f"{TOKENS}/") or "/" not in version:
                continue
            try:
                wanted = token_spec_of(pod, key)
                at = due(version, seed_of(wanted))
            except ValueError:  # no expiry in it: written by another release, which uses another format
                continue
            except Exception as error:  # noqa: BLE001 - other pods must not be affected
                log_bad_item("tokens of pods", pod.uid, error)
                continue
            yield MountedToken(pod, key, version, wanted, at)


def token_spec_of(pod: PodSnapshot, key: str) -> TokenSpec:
    """Return the token request for a key of a pod's objects."""
    audience, seconds = audience_of(key)
    spec: Mapping[str, Any] = pod.pod.get("spec") or {}
    bound = BoundPod(pod.namespace, pod.name, pod.uid)
    return pod_token_spec(bound, str(spec.get("serviceAccountName") or ""), audience, seconds)


class TokenRotation:
    """The loop that renews."""

    def __init__(self, tokens: TokenSource, pods: Callable[[], Iterable[PodSnapshot]], send_signal: SendSignal) -> None:
        self._tokens, self._pods, self._send_signal = tokens, pods, send_signal
        self._not_before: dict[tuple[str, str], datetime] = {}
        """By pod uid and key: when a failed renewal is retried."""

    async def run(self, changed: asyncio.Event, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Renew what is due, then wait for the next one or for a change of pods, until cancelled."""
        while True:
            changed.clear()
            wake = await self.renew(now())
            seconds = max(min(wake - now(), LOOK).total_seconds(), 0.1)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await changed.wait()

    async def renew(self, now: datetime) -> datetime:
        """Renew what is due; returns when to check again."""
        shown = list(mounted_tokens(self._pods()))
        keys = {(one.pod.uid, one.key) for one in shown}
        self._not_before = {key: at for key, at in self._not_before.items() if key in keys}
        due_now = [one for one in shown if self._at(one) <= now]
        for one in due_now:
            self._not_before[one.pod.uid, one.key] = now + AGAIN
        await asyncio.gather(*map(self._renew, due_now))
        return min((self._at(one) for one in shown), default=now + LONGEST)

    def _at(self, one: MountedToken) -> datetime:
        return max(one.due, self._not_before.get((one.pod.uid, one.key), one.due))

    async def _renew(self, one: MountedToken) -> None:
        where = {"pod": f"{one.pod.namespace}/{one.pod.name}", "podUID": one.pod.uid}
        try:
            version = (await self._tokens.token(one.wanted)).version
            if version != one.version:
                await self._send_signal(one.pod.workflow_id, ObjectsChanged(SOURCE, {one.key: version}))
        except Exception as error:  # noqa: BLE001 - refused, or Temporal is away, or a defect: tried again
            _log.warning("a token of a pod can't be renewed now; it keeps the old one", **where, err=str(error))
