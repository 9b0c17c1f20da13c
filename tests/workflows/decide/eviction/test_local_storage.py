"""Which pods are evicted for exceeding their local storage, and with which message?"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from proto.kubernetes.resources.storage_limits import StorageLimits, storage_limits
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Eviction
from proto.temporal.signals import StorageExceeded
from tests.workflows.decide.situations import at, deletion, down, pod, sandbox, situation, up
from workflows.decide.eviction.local_storage import watched_limits, why_evicted
from workflows.decide.lifecycle.lifecycle import Event, happened, next_event
from workflows.decide.record.signals import apply_signal
from workflows.decide.status.conditions import DISRUPTION_TARGET
from workflows.decide.status.status import pod_status

MIB = 1024 * 1024
WEB: dict[str, Any] = {"containers": {"web": up()}}
WORDS = 'Usage of EmptyDir volume "data" exceeds the limit "1Mi". '
GOING = Eviction(at(-9), "Evicted", "low on memory")


def limited(limit: Any = "1Mi", **spec: Any) -> dict[str, Any]:
    """Build a pod whose emptyDir `data` has a limit."""
    return pod(volumes=[{"name": "data", "emptyDir": {"sizeLimit": limit}}], **spec)


def holding(used_bytes: int, volume: str = "data") -> StorageExceeded:
    """Build a measurement."""
    return StorageExceeded("local-storage", volume, used_bytes)


def stored(*limits: str, init: Sequence[str] = (), **spec: Any) -> dict[str, Any]:
    """Build a pod with containers c0, c1 … with ephemeral-storage limits; `-`: none."""
    names = [f"c{number}" for number in range(len(limits))]
    made = pod(*names, init=[f"i{number}" for number in range(len(init))], **spec)
    every = [*made["spec"]["containers"], *made["spec"].get("initContainers", ())]
    for container, limit in zip(every, (*limits, *init), strict=True):
        if limit != "-":
            container["resources"] = {"limits": {"ephemeral-storage": limit}}
    return made


@pytest.mark.parametrize(
    ("source", "total", "containers"),
    [
        pytest.param(stored("1Gi"), "1Gi", {"c0": "1Gi"}, id="one-container"),
        pytest.param(stored("1Gi", "512Mi"), "1536Mi", {"c0": "1Gi", "c1": "512Mi"}, id="the-sum"),
        pytest.param(stored("1Gi", "-"), "1Gi", {"c0": "1Gi"}, id="one-without-a-limit-adds-nothing"),
        pytest.param(stored("1G", "1G"), "2G", {"c0": "1G", "c1": "1G"}, id="written-as-the-first"),
        pytest.param(stored("1000", "1Ki"), "2024", {"c0": "1k", "c1": "1Ki"}, id="of-both-forms"),
        pytest.param(stored("1Ki", "1000"), "2024", {"c0": "1Ki", "c1": "1k"}, id="no-multiple-of-1024"),
        pytest.param(stored("0"), "0", {}, id="nought-limits-the-pod-only"),
        pytest.param(stored("1Gi", init=["2Gi"]), "2Gi", {"c0": "1Gi"}, id="a-hungrier-init-container"),
        pytest.param(stored("-", init=["2Gi"]), "2Gi", {}, id="an-init-container-alone"),
        pytest.param(
            stored("1Gi", overhead={"ephemeral-storage": "1Gi"}), "2Gi", {"c0": "1Gi"}, id="with-what-its-runtime-takes"
        ),
    ],
)
def test_what_its_containers_may_store(source: dict[str, Any], total: str, containers: dict[str, str]) -> None:
    """As in podEphemeralStorageLimitEviction and containerEphemeralStorageLimitEviction."""
    assert storage_limits(source) == StorageLimits({}, total, containers)


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        pytest.param(
            StorageExceeded("local-storage", used_bytes=MIB + 1, container="c0"),
            'Container c0 exceeded its local ephemeral storage limit "1Mi". ',
            id="a-container",
        ),
        pytest.param(StorageExceeded("local-storage", used_bytes=MIB, container="c0"), "", id="just-its-limit"),
        pytest.param(StorageExceeded("local-storage", used_bytes=9 * MIB, container="x"), "", id="no-such-container"),
        pytest.param(
            StorageExceeded("local-storage", used_bytes=3 * MIB + 1),
            "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. ",
            id="all-of-it",
        ),
        pytest.param(StorageExceeded("local-storage", used_bytes=3 * MIB), "", id="all-of-it-just-the-limit"),
    ],
)
def test_what_it_ends_for(hint: StorageExceeded, words: str) -> None:
    """The kubelet's message for each limit."""
    assert why_evicted(situation(stored("1Mi", "2Mi"), containers={"c0": up("c0"), "c1": up("c1")}), hint) == words


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param({"emptyDir": {"sizeLimit": "1Mi"}}, "1Mi", id="a-limit"),
        pytest.param({"emptyDir": {"sizeLimit": "1024Ki"}}, "1Mi", id="as-the-api-writes-it"),
        pytest.param({"emptyDir": {}}, None, id="no-limit"),
        pytest.param({"emptyDir": None}, None, id="nothing-said"),
        pytest.param({"emptyDir": {"sizeLimit": "0"}}, None, id="a-limit-of-nought-is-none"),
        pytest.param({"emptyDir": {"sizeLimit": "1Mi", "medium": "Memory"}}, None, id="in-memory-its-size-holds"),
        pytest.param({"hostPath": {"path": "/"}}, None, id="another-type"),
    ],
)
def test_what_is_limited(volume: dict[str, Any], expected: str | None) -> None:
    """As in emptyDirLimitEviction."""
    found = storage_limits(pod(volumes=[{"name": "data", **volume}]))
    assert found == (StorageLimits({"data": expected}) if expected else None)


@pytest.mark.parametrize(
    ("source", "known", "hint", "words"),
    [
        pytest.param(limited(), WEB, holding(MIB + 1), WORDS, id="more-than-its-limit"),
        pytest.param(limited(), WEB, holding(MIB), "", id="just-its-limit"),
        pytest.param(limited("1048576"), WEB, holding(MIB + 1), WORDS.replace("1Mi", "1048576"), id="in-its-own-words"),
        pytest.param(limited("2Mi"), WEB, holding(MIB + 1), "", id="less-than-its-limit-as-it-is-now"),
        pytest.param(pod(), WEB, holding(MIB + 1), "", id="a-pod-without-limits"),
        pytest.param(limited(), WEB, holding(MIB + 1, "other"), "", id="a-volume-without-limit"),
        pytest.param(limited(), {"sandbox": None}, holding(MIB + 1), WORDS, id="before-its-sandbox-is-there"),
        pytest.param(limited(priority=2_000_000_000), WEB, holding(MIB + 1), "", id="a-pod-of-the-system"),
        pytest.param(
            limited(priorityClassName="system-node-critical"), WEB, holding(MIB + 1), "", id="one-by-its-class"
        ),
        pytest.param(limited(), WEB | {"deletion": deletion()}, holding(MIB + 1), "", id="a-pod-that-is-deleted"),
        pytest.param(limited(), WEB | {"eviction": GOING}, holding(MIB + 1), "", id="one-that-is-evicted"),
        pytest.param(
            limited(restartPolicy="Never"), {"containers": {"web": down(0)}}, holding(MIB + 1), "", id="a-finished-one"
        ),
        pytest.param(
            limited(),
            WEB | {"sandbox": sandbox(ready=False, stopped=True), "lifecycle": Lifecycle.TERMINATED},
            holding(MIB + 1),
            "",
            id="one-that-is-down",
        ),
    ],
)
def test_who_ends_for_it(source: dict[str, Any], known: dict[str, Any], hint: StorageExceeded, words: str) -> None:
    """By the pod's current spec; a late hint changes nothing."""
    here = situation(source, **known)
    assert why_evicted(here, hint) == words
    apply_signal(here, hint)
    assert (here.observed.eviction.message if here.observed.eviction and words else "") == words


@pytest.mark.parametrize(
    ("source", "known", "watched"),
    [
        pytest.param(limited(), WEB, True, id="a-pod-that-runs"),
        pytest.param(pod(), WEB, False, id="without-limits"),
        pytest.param(limited(priority=2_000_000_000), WEB, False, id="a-pod-of-the-system"),
        pytest.param(limited(), WEB | {"eviction": GOING}, False, id="one-that-is-evicted"),
        pytest.param(limited(), WEB | {"deletion": deletion()}, False, id="one-that-is-deleted"),
    ],
)
def test_what_is_watched(source: dict[str, Any], known: dict[str, Any], watched: bool) -> None:
    """Only limits whose excess would evict the pod."""
    assert (watched_limits(situation(source, **known)) is not None) is watched


@pytest.mark.parametrize(
    ("own", "seconds"),
    [pytest.param(30, 1, id="a-second"), pytest.param(1, 1, id="its-own"), pytest.param(0, 1, id="0")],
)
def test_what_becomes_of_it(own: int, seconds: int) -> None:
    """It is Failed with the kubelet's message, within a second, without DisruptionTarget; a second hint changes nothing."""
    here = situation(limited(terminationGracePeriodSeconds=own), **WEB)
    apply_signal(here, holding(2 * MIB))
    eviction = here.observed.eviction
    assert eviction == Eviction(here.now, "Evicted", WORDS, timedelta(seconds=seconds))
    apply_signal(here, holding(3 * MIB))
    assert here.observed.eviction is eviction
    assert next_event(here) is Event.EVICTED
    happened(here, Event.EVICTED)
    here.observed.containers = {"web": down(137)}
    shown = pod_status(here)
    assert (shown.phase, shown.reason) == ("Failed", "Evicted")
    assert (shown.message or "").startswith(WORDS)
    assert all(one.type != DISRUPTION_TARGET for one in shown.conditions or [])
