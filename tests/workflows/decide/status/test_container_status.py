"""What does a pod's status say of each container: its state, its waiting reason, and its last exit?"""

from datetime import timedelta
from typing import Any

import pytest
from kubernetes.client.models.v1_container_status import V1ContainerStatus

from proto.temporal.images import ImageFacts
from proto.temporal.pod import (
    ContainerFacts,
    ContainerState,
    Exit,
    Lifecycle,
    LinuxUser,
    NodeSettings,
)
from tests.workflows.decide.situations import IMAGE, Context, at, done, down, pod, situation, up
from workflows.decide.status.status import pod_status

HERE = f"{IMAGE} IfNotPresent"
FORTY: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
REFUSED: dict[str, Any] = {"failure_reason": "CreateContainerError", "failure_message": "no such device"}


def status_of(name: str, source: dict[str, Any], **known: Any) -> V1ContainerStatus:
    """Return a container's status."""
    status = pod_status(situation(source, **known))
    everyone: list[V1ContainerStatus] = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    (one,) = [one for one in everyone if one.name == name]
    return one


def said(status: V1ContainerStatus) -> tuple[str | None, str | None]:
    """Describe state and last state in short."""

    def words(state: Any) -> str | None:
        if state is None:
            return None
        if state.waiting:
            return f"waiting {state.waiting.reason}"
        if state.terminated:
            return f"terminated {state.terminated.reason} {state.terminated.exit_code}"
        return "running" if state.running else None

    return words(status.state), words(status.last_state)


@pytest.mark.parametrize(
    ("source", "known", "expected"),
    [
        pytest.param(pod(), {}, ("waiting ContainerCreating", None), id="never-seen"),
        pytest.param(pod(init=["i"]), {}, ("waiting PodInitializing", None), id="waits-for-init-containers"),
        pytest.param(pod(), {"containers": {"web": up()}}, ("running", None), id="running"),
        pytest.param(
            pod(),
            {"containers": {"web": up(attempt=1, last_exit=Exit("web-0", 3, "Error"))}},
            ("running", "terminated Error 3"),
            id="running-again",
        ),
        pytest.param(
            pod(), {"containers": {"web": down(1)}}, ("terminated Error 1", None), id="ended-and-about-to-start-again"
        ),
        pytest.param(
            pod(),
            {"containers": {"web": down(1, **FORTY)}},
            ("waiting CrashLoopBackOff", "terminated Error 1"),
            id="backs-off",
        ),
        pytest.param(
            pod(restartPolicy="Never"), {"containers": {"web": down(0)}}, ("terminated Completed 0", None), id="done"
        ),
        pytest.param(
            pod(),
            {"containers": {"web": ContainerFacts(**REFUSED)}},
            ("waiting CreateContainerError", None),
            id="could-not-be-created",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": down(1, attempt=2, **REFUSED)}},
            ("waiting CreateContainerError", "terminated Error 1"),
            id="could-not-be-created-again",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": up(state=ContainerState.CREATED)}},
            ("waiting ContainerCreating", None),
            id="created",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": up(state=ContainerState.UNKNOWN, last_exit=Exit("web-0", 3, "Error"))}},
            ("terminated ContainerStatusUnknown 137", "terminated Error 3"),
            id="ran-and-the-runtime-has-lost-sight-of-it",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": up(state=ContainerState.UNKNOWN, started_at=None)}},
            ("waiting ContainerCreating", None),
            id="was-never-seen-to-run-and-is-out-of-sight",
        ),
        pytest.param(
            pod(restartPolicy="Never"),
            {"lifecycle": Lifecycle.TERMINATED},
            ("terminated ContainerStatusUnknown 137", None),
            id="terminated-before-it-ever-ran",
        ),
        pytest.param(
            pod(init=["i"], restartPolicy="Never"),
            {"lifecycle": Lifecycle.TERMINATED, "containers": {"i": down(1, "i")}},
            ("waiting PodInitializing", None),
            id="never-initialized",
        ),
        pytest.param(
            pod(),
            {"lifecycle": Lifecycle.TERMINATING, "containers": {"web": down(1, **FORTY)}},
            ("terminated Error 1", None),
            id="a-pod-that-goes-waits-for-nothing",
        ),
    ],
)
def test_state(source: dict[str, Any], known: dict[str, Any], expected: tuple[Any, Any]) -> None:
    """State and last state of the regular container."""
    assert said(status_of("web", source, **known)) == expected


NOBODY_SAW, WAITS = "terminated ContainerStatusUnknown 137", "waiting"
I_FAILED = {"i2": down(1, "i2")}
REMOVED = ContainerFacts(attempt=1, last_exit=Exit("web-0", 0, "Completed"))


@pytest.mark.parametrize(
    ("init", "containers", "expected"),
    [
        pytest.param([], {}, [NOBODY_SAW], id="no-previous-state"),
        pytest.param([], {"web": REMOVED}, [NOBODY_SAW], id="last-termination-state-set"),
        pytest.param([], {"web": down(2)}, ["terminated Error 2"], id="an-end-that-is-known-stays"),
        pytest.param(["i0"], {}, [NOBODY_SAW, WAITS], id="uninitialized-pod-defaults-the-first-init-container"),
        pytest.param(["i0", "i1"], {}, [NOBODY_SAW, WAITS, WAITS], id="uninitialized-pod-defaults-only-the-first"),
        pytest.param(
            ["i0", "i1", "i2", "i3"],
            I_FAILED,
            [NOBODY_SAW, NOBODY_SAW, "terminated Error 1", WAITS, WAITS],
            id="uninitialized-pod-defaults-gaps",
        ),
        pytest.param(
            ["i0", "i1", "i2"],
            I_FAILED,
            [NOBODY_SAW, NOBODY_SAW, "terminated Error 1", WAITS],
            id="failed-last-container-is-uninitialized",
        ),
        pytest.param(
            ["i0", "i1", "i2"],
            {"i2": done("i2")},
            [NOBODY_SAW, NOBODY_SAW, "terminated Completed 0", NOBODY_SAW],
            id="successful-last-container-is-initialized",
        ),
        pytest.param(
            ["i0"],
            {"web": down(0)},
            [NOBODY_SAW, "terminated Completed 0"],
            id="a-terminated-one-proves-initialization",
        ),
        pytest.param(
            ["i0"], {"web": REMOVED}, [NOBODY_SAW, NOBODY_SAW], id="a-previously-terminated-one-proves-initialization"
        ),
    ],
)
def test_a_pod_that_is_gone(init: list[str], containers: dict[str, ContainerFacts], expected: list[str]) -> None:
    """The kubelet's TestTerminatePod_DefaultUnknownStatus: a container that must have run without a known exit has failed."""
    source = pod(init=init, restartPolicy="Never")
    names = [*init, "web"]
    known = {"lifecycle": Lifecycle.TERMINATED, "containers": containers}
    states = [said(status_of(name, source, **known))[0] or "" for name in names]
    assert [WAITS if one.startswith(WAITS) else one for one in states] == expected


@pytest.mark.parametrize(
    ("facts", "expected", "ready"),
    [
        pytest.param(ContainerFacts(), "waiting PodInitializing", False, id="waits-in-the-pod-s-words"),
        pytest.param(up("i"), "running", False, id="runs"),
        pytest.param(done("i"), "terminated Completed 0", True, id="is-done"),
        pytest.param(down(1, "i", **FORTY), "waiting CrashLoopBackOff", False, id="backs-off"),
        pytest.param(ContainerFacts(done_in_sandbox="s0"), "terminated Completed 0", True, id="done-and-forgotten"),
    ],
)
def test_an_init_container_is_ready_when_it_is_done(facts: ContainerFacts, expected: str, ready: bool) -> None:
    """Only then."""
    status = status_of("i", pod(init=["i"]), containers={"i": facts})
    assert (said(status)[0], status.ready) == (expected, ready)


@pytest.mark.parametrize(
    ("image", "reason", "message"),
    [
        pytest.param(
            ImageFacts(reason="ErrImagePull", message="not found", backoff=timedelta(seconds=10), failed_at=at(-1)),
            "ErrImagePull",
            "not found",
            id="the-first-failure-by-its-own-name",
        ),
        pytest.param(
            ImageFacts(reason="ErrImagePull", message="not found", backoff=timedelta(seconds=20), failed_at=at(-1)),
            "ImagePullBackOff",
            f'Back-off pulling image "{IMAGE}": ErrImagePull: not found',
            id="further-ones-as-a-back-off",
        ),
        pytest.param(
            ImageFacts(reason="ErrImageNeverPull", message="absent", backoff=timedelta(seconds=20), failed_at=at(-1)),
            "ErrImageNeverPull",
            "absent",
            id="what-is-never-pulled-does-not-back-off",
        ),
    ],
)
def test_waits_for_its_image(image: ImageFacts, reason: str, message: str) -> None:
    """With the kubelet's reasons."""
    state = status_of("web", pod(), images={HERE: image}).state
    assert state
    assert state.waiting
    assert (state.waiting.reason, state.waiting.message) == (reason, message)


@pytest.mark.parametrize(
    ("delay", "words"),
    [
        pytest.param(10, "10s", id="seconds"),
        pytest.param(80, "1m20s", id="minutes"),
        pytest.param(300, "5m0s", id="most"),
    ],
)
def test_a_crash_loop_in_the_kubelet_s_words(delay: float, words: str) -> None:
    """Delay, container and pod."""
    facts = down(1, backoff=timedelta(seconds=delay), backoff_at=at(-1))
    state = status_of("web", pod(), containers={"web": facts}).state
    assert state
    assert state.waiting
    expected = f"back-off {words} restarting failed container=web pod=web_default(uid-1)"
    assert state.waiting.message == expected


def test_the_rest() -> None:
    """Ids, images, count and times, in the API's format."""
    facts = up(attempt=4, image="docker.io/library/busybox:1", image_ref="sha256:9")
    status = status_of("web", pod(), containers={"web": facts})
    assert (status.container_id, status.restart_count) == ("containerd://web-4", 4)
    assert (status.image, status.image_id) == ("docker.io/library/busybox:1", "sha256:9")
    assert (status.ready, status.started) == (True, True)
    assert status.state
    assert status.state.running
    assert status.state.running.started_at == at(-60)


def test_an_end_in_full() -> None:
    """Code, reason, times and container id."""
    status = status_of("web", pod(restartPolicy="Never"), containers={"web": down(3, ended=-2)})
    assert status.state
    end = status.state.terminated
    assert end
    assert (end.exit_code, end.reason, end.container_id) == (3, "Error", "containerd://web-0")
    assert (end.started_at, end.finished_at) == (at(-60), at(-2))


@pytest.mark.parametrize(
    ("gate", "told", "shown"),
    [
        pytest.param(True, "SIGUSR1", "SIGUSR1", id="as-the-runtime-tells-it"),
        pytest.param(True, "", None, id="a-runtime-that-does-not-say"),
        pytest.param(False, "SIGUSR1", None, id="not-without-the-gate"),
    ],
)
def test_the_stop_signal(*, gate: bool, told: str, shown: str | None) -> None:
    """The runtime's value in status.containerStatuses[].stopSignal, with the feature gate ContainerStopSignals."""
    context = Context(settings=NodeSettings(container_stop_signals=gate))
    status = pod_status(situation(pod(), context, containers={"web": up(stop_signal=told)}))
    assert status.container_statuses
    assert status.container_statuses[0].stop_signal == shown


def test_the_user() -> None:
    """The runtime's value for the newest instance in status.containerStatuses[].user, or absent."""
    told = up(user=LinuxUser(1000, 3000, (2000, 3000)))
    (status,) = pod_status(situation(pod(), containers={"web": told})).container_statuses or []
    assert status.user
    assert status.user.linux
    linux = status.user.linux
    assert (linux.uid, linux.gid, linux.supplemental_groups) == (1000, 3000, [2000, 3000])
    (status,) = pod_status(situation(pod(), containers={"web": up()})).container_statuses or []
    assert status.user is None
