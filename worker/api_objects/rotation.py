"""Renews the tokens that volumes show before they grow old, and tells the pods' workflows, which write them anew.

Run by `cluster_objects`. When a token is due stands in its version, so in the snapshots: there is nothing to remember,
and a worker that was away goes on where it was. One that can't be had costs no history: it is tried again every minute, and the
pod keeps the old one (pkg/kubelet/token/token_manager.go).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from temporalio.service import RPCError

from activities.objects.tokens import BoundPod, TokenRefused, TokenSource, TokenSpec, due, pod_token_spec
from proto.kubernetes.contents.projections import TOKENS, audience_of
from proto.pod_snapshot import PodSnapshot
from proto.temporal.signals import ObjectsChanged
from worker.api_objects.telling import SOURCE, Tell
from worker.api_objects.tokens import seed_of

AGAIN: Final = timedelta(minutes=1)
"""Between two tries to renew a token, as between two syncs of a pod."""
LONGEST: Final = timedelta(hours=1)
"""Until the next look where no token is shown."""
LOOK: Final = timedelta(minutes=1)
"""Nobody waits longer for what is due: a clock may be set meanwhile, and while a machine sleeps no waiting goes on."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token that a pod's volume shows, and when it is to be another one."""

    pod: PodSnapshot
    key: str
    version: str
    wish: TokenSpec
    due: datetime


def shown_tokens(pods: Iterable[PodSnapshot]) -> Iterator[ShownToken]:
    """List the tokens that volumes of pods show; of pods that go, none."""
    for pod in pods:
        for key, version in pod.objects.items():
            if pod.deleting or not key.startswith(f"{TOKENS}/") or "/" not in version:
                continue
            wish = wish_of(pod, key)
            with contextlib.suppress(ValueError):  # no time: another release wrote it, which has its own
                yield ShownToken(pod, key, version, wish, due(version, seed_of(wish)))


def wish_of(pod: PodSnapshot, key: str) -> TokenSpec:
    """Say which token a pod shows under a key."""
    audience, seconds = audience_of(key)
    spec: Mapping[str, Any] = pod.pod.get("spec") or {}
    bound = BoundPod(pod.namespace, pod.name, pod.uid)
    return pod_token_spec(bound, str(spec.get("serviceAccountName") or ""), audience, seconds)


class TokenRotation:
    """The loop that renews."""

    def __init__(self, tokens: TokenSource, pods: Callable[[], Iterable[PodSnapshot]], tell: Tell) -> None:
        self._tokens, self._pods, self._tell = tokens, pods, tell
        self._not_before: dict[tuple[str, str], datetime] = {}
        """By pod uid and key: when a token that could not be renewed is tried again."""

    async def run(self, changed: asyncio.Event, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Renew what is due, then wait for what is due next or for other pods, until cancelled."""
        while True:
            changed.clear()
            wake = await self.renew(now())
            seconds = max(min(wake - now(), LOOK).total_seconds(), 0.1)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), seconds)

    async def renew(self, now: datetime) -> datetime:
        """Renew what is due; answers when to look again."""
        shown = list(shown_tokens(self._pods()))
        keys = {(one.pod.uid, one.key) for one in shown}
        self._not_before = {key: at for key, at in self._not_before.items() if key in keys}
        due_now = [one for one in shown if self._at(one) <= now]
        for one in due_now:
            self._not_before[one.pod.uid, one.key] = now + AGAIN
        await asyncio.gather(*map(self._renew, due_now))
        return min((self._at(one) for one in shown), default=now + LONGEST)

    def _at(self, one: ShownToken) -> datetime:
        return max(one.due, self._not_before.get((one.pod.uid, one.key), one.due))

    async def _renew(self, one: ShownToken) -> None:
        where = {"pod": f"{one.pod.namespace}/{one.pod.name}", "podUID": one.pod.uid}
        try:
            version = (await self._tokens.token(one.wish)).version
            if version != one.version:
                await self._tell(one.pod.workflow_id, ObjectsChanged(SOURCE, {one.key: version}))
        except (TokenRefused, RPCError, RuntimeError, TimeoutError) as error:
            _log.warning("a token of a pod can't be renewed now; it keeps the old one", **where, err=str(error))
