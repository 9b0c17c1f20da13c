"""Is each token in a volume renewed when it is due, its pod signalled once, and a failure retried later?"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.objects.tokens import ServiceAccountToken, TokenRefused, TokenSpec, due
from proto.pod_snapshot import PodSnapshot
from proto.temporal.signals import ObjectsChanged
from tests.patience import PATIENCE
from tests.worker.poller.snapshots import snapshot
from worker.api_objects import token_rotation
from worker.api_objects.token_rotation import AGAIN, LONGEST, TokenRotation, mounted_tokens, token_spec_of
from worker.api_objects.tokens import seed_of

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
KEY = "serviceaccounttokens/3600/vault"
POD: dict[str, Any] = {"spec": {"serviceAccountName": "robot"}}


def version(at: datetime) -> str:
    """Return the version of a token that is valid for an hour."""
    return ServiceAccountToken("t", at, at + timedelta(hours=1)).version


def showing(uid: str, *versions: str, **more: Any) -> PodSnapshot:
    """A pod with a token."""
    return replace(snapshot(uid), objects=dict.fromkeys([KEY], *versions), pod=POD, **more)


class Node:
    """Issues tokens, and records signals."""

    def __init__(self, *pods: PodSnapshot) -> None:
        self.pods = list(pods)
        self.now, self.away = NOON, False
        self.asked: list[TokenSpec] = []
        self.told: list[tuple[str, dict[str, str]]] = []
        self.heard = asyncio.Event()
        self.rotation = TokenRotation(self, lambda: self.pods, self.tell)

    async def token(self, wish: TokenSpec) -> ServiceAccountToken:
        """Issue one now."""
        self.asked.append(wish)
        if self.away:
            raise TokenRefused("away")
        return ServiceAccountToken("t", self.now, self.now + timedelta(hours=1))

    async def tell(self, workflow_id: str, signal: ObjectsChanged) -> None:
        """Record it."""
        self.told.append((workflow_id, signal.versions))
        self.heard.set()

    async def renew(self, **later: float) -> datetime:
        """Advance the time, and check."""
        self.now += timedelta(**later)
        return await self.rotation.renew(self.now)


async def test_a_token_is_renewed_when_it_is_due() -> None:
    """Not before; then the pod is signalled."""
    node = Node(pod := showing("u1", version(NOON)))
    at = due(version(NOON), seed_of(token_spec_of(pod, KEY)))
    assert await node.renew(minutes=30) == at
    assert node.asked == []
    node.now = at
    await node.renew()
    assert node.told == [(pod.workflow_id, {KEY: version(at)})]
    assert node.asked[0].audiences == ("vault",)
    assert (node.asked[0].service_account, node.asked[0].expiration_seconds) == ("robot", 3600)


async def test_one_that_can_t_be_had_is_tried_every_minute() -> None:
    """And its pod gets no signal meanwhile."""
    node = Node(pod := showing("u1", version(NOON)))
    node.away = True
    assert await node.renew(minutes=50) == node.now + AGAIN
    await node.renew(seconds=59)
    assert (len(node.asked), node.told) == (1, [])
    node.away = False
    await node.renew(seconds=1)
    assert [one for one, _ in node.told] == [pod.workflow_id]


async def test_one_pod_holds_up_no_other() -> None:
    """Each token is renewed separately; without any, the next check is after an hour."""
    pods = [showing(f"u{number}", version(NOON)) for number in range(3)]
    node = Node(*pods)
    await node.renew(hours=1)
    assert {one for one, _ in node.told} == {one.workflow_id for one in pods}
    node.pods = []
    assert await node.renew() == node.now + LONGEST


async def test_what_fell_due_while_the_machine_slept_is_renewed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout does not advance during sleep, so the remaining half hour would only start now."""
    monkeypatch.setattr(token_rotation, "LOOK", timedelta(milliseconds=10))
    node = Node(showing("u1", version(NOON)))
    looked = asyncio.Event()

    def now() -> datetime:
        looked.set()
        return node.now

    renewing = asyncio.create_task(node.rotation.run(asyncio.Event(), now))
    await looked.wait()
    node.now += timedelta(hours=8)
    await asyncio.wait_for(node.heard.wait(), PATIENCE)
    renewing.cancel()
    with suppress(asyncio.CancelledError):
        await renewing
    assert len(node.told) == 1


def test_whose_tokens_are_not_renewed() -> None:
    """Terminating pods, a token that is not mounted yet, a version without a time."""
    pods = [showing("u1", version(NOON), deleting=True), showing("u2", "?"), showing("u3", ""), showing("u4", "a/b")]
    assert list(mounted_tokens(pods)) == []
