"""Is a pod signalled about an object that changes for ever at growing intervals only, and never less than the newest version?"""

from collections.abc import Mapping
from dataclasses import replace
from unittest.mock import Mock

import pytest

from activities.execution.growing_intervals import AT_ONCE
from activities.objects.objects import ObjectKind
from proto.temporal.signals import ObjectsChanged
from tests.worker.poller.snapshots import snapshot
from worker.api_objects import change_signals
from worker.api_objects.change_signals import ObjectChangeSignals

KEY = (ObjectKind.CONFIG_MAPS, "default", "settings")


class Cluster:
    """Has one ConfigMap that a pod mounts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.version, self.now = 0, 1_800_000_000.0
        self.signals: list[str] = []
        pod = replace(snapshot("u1"), objects={"configmaps/settings": "0"})
        self.loop = ObjectChangeSignals(
            self,  # type: ignore[arg-type]  # plays WatchedObjects
            Mock(known=lambda: None),
            lambda: [pod],
            self.send,
        )
        monkeypatch.setattr(change_signals, "time", Mock(time=lambda: self.now))

    async def follow(self, _: frozenset[object]) -> None:
        """Watch."""

    def read(self) -> Mapping[tuple[ObjectKind, str, str], tuple[str, str | None]]:
        """Return the version that it has, and the one that was read."""
        return {KEY: (str(self.version), "0")}

    async def send(self, _: str, signal: ObjectsChanged) -> None:
        """Take a signal."""
        self.signals.append(signal.versions["configmaps/settings"])


async def test_who_may_edit_an_object_cannot_fill_the_histories_of_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change each second of a day; each signal has the newest version."""
    cluster = Cluster(monkeypatch)
    for cluster.version in range(1, 86_401):
        cluster.now += 1
        if cluster.version <= 100 or cluster.version % 10 == 0:
            await cluster.loop.compare()
    assert cluster.signals[:AT_ONCE] == [str(one) for one in range(1, AT_ONCE + 1)]
    assert len(cluster.signals) < 330


async def test_the_last_change_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the comparison of each minute, without another change."""
    cluster = Cluster(monkeypatch)
    for cluster.version in range(1, 31):
        await cluster.loop.compare()
    assert cluster.signals[-1] == str(AT_ONCE)
    cluster.now += change_signals.EVERY
    await cluster.loop.compare()
    assert cluster.signals[-1] == "30"


async def test_a_pod_whose_lead_has_changed_is_signalled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once more, also if it was being signalled just then."""
    cluster = Cluster(monkeypatch)
    cluster.version = 1
    await cluster.loop.compare()
    await cluster.loop.compare()
    assert cluster.signals == ["1"]
    cluster.loop.tell_anew([snapshot("u1").workflow_id])
    await cluster.loop.compare()
    await cluster.loop.compare()
    assert cluster.signals == ["1", "1"]
    cluster.version = 2
    send = cluster.loop._send_signal

    async def while_the_lead_changes(workflow_id: str, signal: ObjectsChanged) -> None:
        await send(workflow_id, signal)
        cluster.loop.tell_anew([workflow_id])
        cluster.loop._send_signal = send

    cluster.loop._send_signal = while_the_lead_changes
    await cluster.loop.compare()
    await cluster.loop.compare()
    await cluster.loop.compare()
    assert cluster.signals == ["1", "1", "2", "2"]
