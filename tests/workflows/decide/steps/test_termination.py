"""What is stopped and removed when a pod is deleted, with which grace period, and what is kept of a finished pod?"""

from typing import Any

import pytest

from proto.temporal.activities.requests import StopContainer
from proto.temporal.pod import ContainerState, Failure, Lifecycle
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    Context,
    at,
    deletion,
    describe_all,
    down,
    pod,
    sandbox,
    situation,
    up,
)
from workflows.decide.ending.grace import DEFAULT
from workflows.decide.steps.termination import (
    is_released,
    remove_directories,
    remove_sandboxes,
    stop_containers,
    stop_sandbox,
)

FINISHED: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATING}
DELETED: dict[str, Any] = {**FINISHED, "deletion": deletion(grace=5, asked=-3)}
STOPPED = sandbox(ready=False, stopped=True)
VOLUMES: dict[str, Any] = {"volumes": [{"name": "data", "emptyDir": {}}]}


@pytest.mark.parametrize(
    ("context", "containers", "decision"),
    [
        pytest.param(DEFAULT_CONTEXT, {}, [], id="nothing-ever-ran"),
        pytest.param(
            DEFAULT_CONTEXT, {"a": up("a"), "b": up("b")}, ["StopContainer a", "StopContainer b"], id="all-side-by-side"
        ),
        pytest.param(DEFAULT_CONTEXT, {"a": down(0, "a"), "b": up("b")}, ["StopContainer b"], id="not-what-has-ended"),
        pytest.param(
            DEFAULT_CONTEXT,
            {"a": up("a", state=ContainerState.CREATED)},
            ["StopContainer a"],
            id="also-what-never-started",
        ),
        pytest.param(
            DEFAULT_CONTEXT, {"a": up("a", state=ContainerState.UNKNOWN)}, ["StopContainer a"], id="also-the-unknown"
        ),
        pytest.param(
            Context(busy=(StopContainer(KEY, "a", "a-0", DEFAULT, at(-29), ""),)), {"a": up("a")}, [], id="nobody-twice"
        ),
    ],
)
def test_stop_containers(context: Context, containers: dict[str, Any], decision: list[str]) -> None:
    """Which containers are stopped."""
    assert (
        describe_all(list(stop_containers(situation(pod("a", "b"), context, containers=containers, **DELETED))))
        == decision
    )


def test_grace_counts_from_the_deletion() -> None:
    """A retry never extends it."""
    (stop,) = stop_containers(situation(containers={"web": up()}, **DELETED))
    assert isinstance(stop, StopContainer)
    assert (stop.grace.total_seconds(), stop.asked_at) == (5, at(-3))
    assert stop.reason == "ManifestRemoved: web.yaml is gone"


@pytest.mark.parametrize(
    ("known", "decision"),
    [
        pytest.param({}, ["StopPodSandbox"], id="a-ready-one"),
        pytest.param({"sandbox": sandbox(ready=False)}, ["StopPodSandbox"], id="one-that-died-still-holds-its-network"),
        pytest.param({"sandbox": STOPPED}, [], id="a-stopped-one"),
        pytest.param({"sandbox": None}, [], id="none"),
        pytest.param({"failures": {"sandbox": Failure("KillPodSandboxError", "no", at(-3))}}, ["wake 7"], id="later"),
    ],
)
def test_stop_sandbox(known: dict[str, Any], decision: list[str]) -> None:
    """The network is removed."""
    assert describe_all(list(stop_sandbox(situation(**FINISHED, **known)))) == decision


@pytest.mark.parametrize(
    ("state", "known", "decision"),
    [
        pytest.param(DELETED, {"sandbox": STOPPED}, ["RemovePodSandbox s0"], id="deleted"),
        pytest.param(
            DELETED,
            {"sandbox": sandbox(2, ready=False, stopped=True), "old_sandboxes": ("s0", "s1")},
            ["RemovePodSandbox s0", "RemovePodSandbox s1", "RemovePodSandbox s2"],
            id="deleted-with-old-ones",
        ),
        pytest.param(DELETED, {"sandbox": None}, [], id="deleted-without-one"),
        pytest.param(FINISHED, {"sandbox": STOPPED}, [], id="a-finished-pod-keeps-its-dead-containers"),
    ],
)
def test_remove_sandboxes(state: dict[str, Any], known: dict[str, Any], decision: list[str]) -> None:
    """What is removed from the runtime."""
    assert describe_all(list(remove_sandboxes(situation(**state, **known)))) == decision


@pytest.mark.parametrize(
    ("known", "decision"),
    [
        pytest.param(DELETED, ["RemovePodDirectories"], id="deleted"),
        pytest.param(
            {**DELETED, "directories": False}, ["RemovePodDirectories"], id="a-cgroup-may-be-there-without-them"
        ),
        pytest.param({**DELETED, "cleaned": True}, [], id="once"),
        pytest.param(FINISHED, [], id="a-finished-pod-keeps-its-logs"),
    ],
)
def test_remove_directories(known: dict[str, Any], decision: list[str]) -> None:
    """The last step."""
    assert describe_all(list(remove_directories(situation(**known)))) == decision


@pytest.mark.parametrize(
    ("spec", "known", "released"),
    [
        pytest.param({}, {"sandbox": sandbox(ready=False, stopped=True)}, True, id="all-is-gone"),
        pytest.param({}, {"sandbox": None}, True, id="it-never-had-a-sandbox"),
        pytest.param({}, {"sandbox": sandbox()}, False, id="its-sandbox-has-an-address"),
        pytest.param(VOLUMES, {"sandbox": None}, False, id="its-volumes-are-mounted"),
        pytest.param(VOLUMES, {"sandbox": None, "volumes_undone": True}, True, id="its-volumes-are-unmounted"),
        pytest.param({}, {"sandbox": None, "lifecycle": Lifecycle.TERMINATING}, False, id="its-containers-are-stopped"),
    ],
)
def test_when_a_pod_holds_nothing_any_more(spec: dict[str, Any], known: dict[str, Any], released: bool) -> None:
    """An eviction has relieved the node only then."""
    assert is_released(situation(pod(**spec), **{"lifecycle": Lifecycle.TERMINATED, **known})) is released
