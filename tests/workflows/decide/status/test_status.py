"""What does a pod's whole status contain, and which one line summarizes it for an operator?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import RunPodSandbox
from proto.temporal.images import ImageFacts
from proto.temporal.pod import ContainerFacts, Exit, Failure, Lifecycle
from proto.temporal.pod_inputs import Eviction
from tests.workflows.decide.situations import (
    IMAGE,
    KEY,
    Context,
    at,
    deletion,
    done,
    down,
    pod,
    sandbox,
    situation,
    starting,
    stopping,
    up,
)
from workflows.decide.actions import Action
from workflows.decide.situation import Situation
from workflows.decide.status.status import PodSummary, pod_status, pod_summary

FORTY: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
NO_IMAGE = ImageFacts(reason="ErrImagePull", message="not found", backoff=timedelta(seconds=10), failed_at=at(-1))
EVICTED = Eviction(at(-5), "DeadlineExceeded", "too long")
GONE: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATED, "sandbox": sandbox(ready=False, stopped=True)}
HANGS = Failure("StepTimedOut", "remove the directories of default/web: no answer within 595 s", at(-1))
NO_SANDBOX = Failure("FailedCreatePodSandBox", "no CNI", at(-1))


def line(here: Situation) -> PodSummary:
    """Summarize a pod."""
    return pod_summary(here, pod_status(here))


@pytest.mark.parametrize(
    ("source", "known", "expected"),
    [
        pytest.param(pod(), {"containers": {"web": up()}}, (True, 0, "", ""), id="healthy"),
        pytest.param(pod(), {}, (False, 0, "ContainerCreating", ""), id="on-its-way"),
        pytest.param(
            pod(),
            {"containers": {"web": up()}, "failures": {"resources": HANGS}},
            (True, 0, "StepTimedOut", HANGS.message),
            id="a-step-that-hangs",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": up()}, "failures": {"directories": HANGS}, "deletion": deletion()},
            (True, 0, "Terminating", f"ManifestRemoved: web.yaml is gone; {HANGS.message}"),
            id="a-step-that-hangs-while-the-pod-goes",
        ),
        pytest.param(
            pod("a", "b"),
            {"containers": {"a": up("a", 2), "b": up("b", 3)}},
            (True, 5, "", ""),
            id="restarts-sum-up",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": up(attempt=1, last_exit=Exit("web-0", 3, "Error", "", None, at(-9)))}},
            (True, 1, "Error", "exit code 3"),
            id="ready-again-tells-how-it-last-ended",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": down(1, attempt=2, **FORTY)}},
            (False, 2, "CrashLoopBackOff", "back-off 40s restarting failed container=web pod=web_default(uid-1)"),
            id="a-crash-loop",
        ),
        pytest.param(
            pod("a", "b"),
            {"containers": {"a": down(1, "a"), "b": ContainerFacts(failure_reason="CreateContainerError")}},
            (False, 0, "CreateContainerError", ""),
            id="a-wait-with-a-reason-before-an-end",
        ),
        pytest.param(
            pod(),
            {"images": {f"{IMAGE} IfNotPresent": NO_IMAGE}},
            (False, 0, "ErrImagePull", "not found"),
            id="image",
        ),
        pytest.param(
            pod(),
            {"sandbox": None, "failures": {"sandbox": NO_SANDBOX}},
            (False, 0, "FailedCreatePodSandBox", "no CNI"),
            id="no-sandbox",
        ),
        pytest.param(
            pod(),
            {"sandbox": None, "waiting_for": "uid-0 is there"},
            (False, 0, "PredecessorPresent", "uid-0 is there"),
            id="a-predecessor",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": up()}, "deletion": deletion(), "failures": {"sandbox": NO_SANDBOX}},
            (True, 0, "Terminating", "ManifestRemoved: web.yaml is gone"),
            id="it-goes",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": up()}, "eviction": EVICTED, "lifecycle": Lifecycle.TERMINATING},
            (True, 0, "DeadlineExceeded", "too long"),
            id="it-is-evicted",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": down(0)}, "eviction": EVICTED, "deletion": deletion(), **GONE},
            (False, 0, "DeadlineExceeded", "too long"),
            id="it-was-evicted-and-then-deleted",
        ),
        pytest.param(
            pod(init=["i"], restartPolicy="Never"),
            {"containers": {"i": done("i"), "web": down(0)}},
            (False, 0, "Completed", ""),
            id="all-done",
        ),
        pytest.param(
            pod(restartPolicy="Never"),
            {"containers": {"web": down(7)}},
            (False, 0, "Error", "exit code 7"),
            id="failed",
        ),
        pytest.param(
            pod("a", "b", restartPolicy="Never"),
            {"containers": {"a": down(7, "a", ended=-5), "b": down(8, "b", ended=-9)}},
            (False, 0, "Error", "exit code 7"),
            id="the-latest-of-two-ends",
        ),
    ],
)
def test_pod_summary(source: dict[str, Any], known: dict[str, Any], expected: tuple[bool, int, str, str]) -> None:
    """Ready, restarts and the most urgent reason."""
    shown = line(situation(source, **known))
    assert (shown.ready, shown.restarts, shown.reason, shown.message) == expected


def test_the_whole() -> None:
    """Addresses, QoS class and times beside phase, conditions and containers."""
    status = pod_status(situation(containers={"web": up()}))
    assert (status.phase, status.pod_ip, status.host_ip, status.qos_class) == (
        "Running",
        "10.88.0.5",
        "192.0.2.1",
        "BestEffort",
    )
    assert [one.ip for one in status.pod_ips or []] == ["10.88.0.5"]
    assert [one.ip for one in status.host_ips or []] == ["192.0.2.1"]
    assert status.start_time == at(-60)
    assert status.init_container_statuses is None


def test_a_pod_on_the_host_s_network_has_the_host_s_addresses() -> None:
    """Once its sandbox exists."""
    source = pod(hostNetwork=True)
    assert pod_status(situation(source)).pod_ip == "192.0.2.1"
    assert pod_status(situation(source, sandbox=None)).pod_ip is None


@pytest.mark.parametrize(
    ("generation", "observed"),
    [pytest.param(3, 3, id="its-own"), pytest.param(0, None, id="zero-is-none"), pytest.param(None, None, id="none")],
)
def test_the_generation_that_was_observed(generation: int | None, observed: int | None) -> None:
    """In the status, and in each of its conditions."""
    source = pod()
    source["metadata"]["generation"] = generation
    status = pod_status(situation(source, containers={"web": up()}))
    assert status.observed_generation == observed
    assert {one.observed_generation for one in status.conditions or []} == {observed}


def test_containers_in_the_spec_s_order() -> None:
    """Not in the order of their facts."""
    status = pod_status(situation(pod("b", "a"), containers={"a": up("a"), "b": up("b")}))
    assert [one.name for one in status.container_statuses or []] == ["b", "a"]


def test_a_terminated_pod_is_never_ready() -> None:
    """Its network is removed, too."""
    gone = sandbox(ready=False, stopped=True)
    here = situation(lifecycle=Lifecycle.TERMINATED, deletion=deletion(), sandbox=gone, containers={"web": down(0)})
    status = pod_status(here)
    assert (status.phase, line(here).ready) == ("Succeeded", False)
    assert {one.type: one.status for one in status.conditions or []}["PodReadyToStartContainers"] == "False"


def test_it_can_be_written_as_the_api_writes_it() -> None:
    """Every field has its API name, and none is null."""
    written = pod_status(situation(containers={"web": down(1)})).model_dump(
        by_alias=True, exclude_none=True, mode="json"
    )
    assert written["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert "initContainerStatuses" not in written


@pytest.mark.parametrize(
    ("busy", "held"),
    [
        pytest.param(RunPodSandbox(KEY, 0, {}), "its sandbox is made", id="a-sandbox-that-is-being-made"),
        pytest.param(starting(), "web is started", id="a-container-that-is-starting"),
        pytest.param(stopping(), "", id="a-stop-is-no-hindrance"),
    ],
)
def test_what_a_pod_that_goes_waits_for(busy: Action, held: str) -> None:
    """Beside the reason of its deletion."""
    here = situation(context=Context(busy=(busy,)), lifecycle=Lifecycle.TERMINATING, deletion=deletion())
    more = f"; waits until {held}, or given up after a few seconds" if held else ""
    assert line(here).message == f"ManifestRemoved: web.yaml is gone{more}"
