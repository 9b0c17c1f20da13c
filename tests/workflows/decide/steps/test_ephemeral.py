"""Does an ephemeral container start once, whatever the pod's state, without affecting the rest of the pod?

The rows are the kubelet's TestComputePodActionsWithInitAndEphemeralContainers, and its status meanwhile.
"""

from typing import Any

import pytest
from kubernetes.client.models.v1_container_status import V1ContainerStatus

from proto.temporal.activities.requests import StartContainer
from proto.temporal.hooks import Hook, HookOutcome
from proto.temporal.images import ImageFacts
from proto.temporal.pod import ContainerState, Failure, Lifecycle, PodJson
from tests.workflows.decide.situations import (
    Context,
    at,
    container,
    deletion,
    describe_all,
    done,
    down,
    pod,
    sandbox,
    situation,
    starting,
    up,
)
from workflows.decide.explain.explain import explanation
from workflows.decide.keys import image_key
from workflows.decide.operator.skips import waiting_backoffs
from workflows.decide.situation import Situation
from workflows.decide.slices import container_slice
from workflows.decide.status.status import pod_status
from workflows.decide.steps.containers import start_containers
from workflows.decide.steps.images import pull_images

UNKNOWN, CREATED = ContainerState.UNKNOWN, ContainerState.CREATED
LOST = sandbox(ready=False)
UP: dict[str, Any] = {"web": up()}
SIDE = "+side"


def looked_into(source: PodJson, *names: str, target: str = "", **fields: Any) -> PodJson:
    """Add ephemeral containers to a pod."""
    more = {"targetContainerName": target} if target else {}
    source["spec"]["ephemeralContainers"] = [container(name, **more, **fields) for name in names or ("debug",)]
    return source


def status_of(here: Situation, name: str = "debug") -> V1ContainerStatus:
    """Return an ephemeral container's status."""
    (one,) = [one for one in pod_status(here).ephemeral_container_statuses or () if one.name == name]
    return one


def state(here: Situation) -> str:
    """Describe its state in short."""
    status = status_of(here)
    assert status.state is not None
    if status.state.waiting:
        return ": ".join(filter(None, (status.state.waiting.reason, status.state.waiting.message)))
    if status.state.terminated:
        return f"{status.state.terminated.exit_code} {status.state.terminated.reason}"
    return "running"


@pytest.mark.parametrize(
    ("source", "known", "decision"),
    [
        pytest.param(looked_into(pod()), {"containers": {**UP, "debug": up("debug")}}, [], id="nothing-while-all-run"),
        pytest.param(
            looked_into(pod()), {"containers": UP}, ["StartContainer debug 0"], id="one-that-never-ran-starts"
        ),
        pytest.param(
            looked_into(pod(), "debug", "debug2"),
            {"containers": {**UP, "debug": up("debug")}},
            ["StartContainer debug2 0"],
            id="a-second-one-starts-beside-the-first",
        ),
        pytest.param(
            looked_into(pod(), "debug", "debug2"), {"containers": UP}, ["StartContainer debug 0"], id="one-at-a-time"
        ),
        pytest.param(
            looked_into(pod()), {"containers": {**UP, "debug": down(1, "debug")}}, [], id="one-that-failed-stays-down"
        ),
        pytest.param(
            looked_into(pod()),
            {"containers": {**UP, "debug": down(0, "debug", sandbox_id="old")}},
            [],
            id="one-that-ended-in-an-earlier-sandbox-too",
        ),
        pytest.param(
            looked_into(pod(init=["i", "j"])),
            {"containers": {"i": done("i"), "j": up("j")}},
            ["StartContainer debug 0"],
            id="it-starts-while-an-init-container-runs",
        ),
        pytest.param(
            looked_into(pod(init=["i"], restartPolicy="Never")),
            {"containers": {"i": down(1, "i")}},
            [],
            id="but-not-once-the-initialization-has-failed",
        ),
        pytest.param(looked_into(pod(init=["i"])), {}, ["StartContainer debug 0"], id="before-what-else-is-to-start"),
        pytest.param(
            looked_into(pod()),
            {"containers": {**UP, "debug": up("debug", state=UNKNOWN)}},
            [],
            id="one-out-of-the-runtime's-sight-is-left-alone",
        ),
        pytest.param(
            looked_into(pod()),
            {"containers": {**UP, "debug": up("debug", state=CREATED)}},
            ["StartContainer debug 0"],
            id="one-that-was-made-and-not-started-is-started",
        ),
        pytest.param(
            looked_into(pod(restartPolicy="Never")),
            {"containers": {"web": down(0)}},
            [],
            id="not-in-a-pod-that-is-through",
        ),
        pytest.param(looked_into(pod()), {"sandbox": LOST}, [], id="not-in-a-lost-sandbox"),
        pytest.param(
            looked_into(pod()),
            {"containers": UP, "failures": {"container/debug": Failure("CreateContainerError", "no", at(-4))}},
            ["wake 6"],
            id="one-that-could-not-be-made-is-tried-again",
        ),
        pytest.param(
            looked_into(pod()),
            {"failures": {"container/debug": Failure("CreateContainerError", "no", at(-4))}},
            ["wake 6", "StartContainer web 0"],
            id="and-holds-nobody-up",
        ),
        pytest.param(
            looked_into(pod("a", "b")), {"containers": {"a": up("a")}}, ["StartContainer debug 0"], id="then-the-others"
        ),
    ],
)
def test_when_it_starts(source: PodJson, known: dict[str, Any], decision: list[str]) -> None:
    """Once, as soon as there is a sandbox."""
    assert describe_all(list(start_containers(situation(source, **known)))) == decision


def test_it_starts_beside_a_hook_that_hangs() -> None:
    """A postStart hook delays the following containers, but no ephemeral container."""
    source = looked_into(pod("a", "b"))
    source["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["sleep", "1h"]}}}
    here = situation(source, containers={"a": up("a")})
    assert describe_all(list(start_containers(here))) == ["StartContainer debug 0", f"RunHook a/{Hook.POST_START}/a-0"]
    after = situation(source, containers={"a": up("a"), "debug": up("debug")})
    assert describe_all(list(start_containers(after))) == [f"RunHook a/{Hook.POST_START}/a-0"]
    ended = HookOutcome("a-0", succeeded=True)
    done_with = situation(source, containers={"a": up("a", post_start=ended), "debug": up("debug")})
    assert describe_all(list(start_containers(done_with))) == ["StartContainer b 0"]


def test_only_one_container_starts_at_a_time() -> None:
    """Neither may start while the other one starts."""
    source = looked_into(pod())
    assert describe_all(list(start_containers(situation(source, Context(busy=(starting(),)))))) == []
    assert describe_all(list(start_containers(situation(source, Context(busy=(starting("debug"),)))))) == []


def test_its_image_is_pulled_like_any_other() -> None:
    """And its back-off can be skipped."""
    source = looked_into(pod(), image="tools:1")
    here = situation(
        source, containers=UP, images={image_key("busybox:1", "IfNotPresent"): ImageFacts("i", pulled=True)}
    )
    assert describe_all(list(pull_images(here))) == ["ReadImages"]
    failed = ImageFacts(reason="ErrImagePull", message="not found", backoff=here.settings.image_backoff_initial)
    failed.failed_at = at(-1)
    here.observed.images[image_key("tools:1", "IfNotPresent")] = failed
    assert describe_all(list(pull_images(here))) == ["wake 9"]
    assert state(here) == "ErrImagePull: not found"
    assert [one.container for one in waiting_backoffs(here)] == ["debug"]
    ended = situation(source, containers={**UP, "debug": down(0, "debug")}, images={})
    assert "tools:1" not in str(list(pull_images(ended))), "of one that has ended it is not asked for again"


# --- its target


@pytest.mark.parametrize(
    ("known", "decision", "said"),
    [
        pytest.param({"web": up()}, ["StartContainer debug 0"], "ContainerCreating", id="it-runs"),
        pytest.param(
            {},
            ["StartContainer web 0"],
            "CreateContainerConfigError: unable to find target container web",
            id="it-is-not-there",
        ),
        pytest.param(
            {"web": down(1, backoff=None)},
            ["StartContainer web 1"],
            "CreateContainerError: target container web is not running",
            id="it-has-ended",
        ),
        pytest.param(
            {"web": up(state=UNKNOWN)},
            ["StopContainer web"],
            "CreateContainerError: target container web is not running",
            id="nobody-knows-whether-it-runs",
        ),
    ],
)
def test_the_container_that_it_looks_into(known: dict[str, Any], decision: list[str], said: str) -> None:
    """It starts when its target runs, and waits with a reason until then."""
    here = situation(looked_into(pod(), target="web"), containers=known)
    assert describe_all(list(start_containers(here))) == decision
    assert state(here) == said


@pytest.mark.parametrize("shared", ["hostPID", "shareProcessNamespace"])
def test_where_processes_are_shared_one_that_has_ended_may_be_looked_into(shared: str) -> None:
    """All processes are visible anyway, and the runtime gets no target; a target that never existed is still waited for."""
    spec: dict[str, Any] = {shared: True}
    here = situation(looked_into(pod(**spec), target="web"), containers={"web": down(1, backoff=None)})
    assert describe_all(list(start_containers(here))) == ["StartContainer debug 0"]
    nobody = situation(looked_into(pod(**spec), target="web"), containers={})
    assert state(nobody) == "CreateContainerConfigError: unable to find target container web"


def test_a_start_names_the_instance_that_it_looks_into() -> None:
    """The newest one; and the container's slice names it."""
    source = looked_into(pod("a", "web"), target="web")
    (start,) = start_containers(situation(source, containers={"a": up("a"), "web": up(attempt=3)}))
    assert isinstance(start, StartContainer)
    assert (start.target_id, start.container) == ("web-3", container_slice(source, "debug"))
    (plain,) = start_containers(situation(pod()))
    assert isinstance(plain, StartContainer)
    assert not plain.target_id


def test_what_it_waits_for_is_explained() -> None:
    """With the target's name."""
    here = situation(looked_into(pod(init=["i"]), target="web"), containers={"i": up("i")})
    said = [one.text for one in explanation(here, lambda action: type(action).__name__).sentences]
    assert "debug waits for its target container: unable to find target container web" in said
    runs = situation(looked_into(pod()), containers={**UP, "debug": up("debug")})
    said = [one.text for one in explanation(runs, lambda action: type(action).__name__).sentences]
    assert said[0] == "Running and ready, web, debug run"
    assert "if debug ended now, it would not be restarted" in said


# --- the pod's status


@pytest.mark.parametrize(
    ("source", "known", "said"),
    [
        pytest.param(looked_into(pod()), {"containers": UP}, "ContainerCreating", id="before-it-runs"),
        pytest.param(
            looked_into(pod(init=["i"])), {}, "PodInitializing", id="before-it-runs-in-a-pod-with-init-containers"
        ),
        pytest.param(looked_into(pod()), {"containers": {**UP, "debug": up("debug")}}, "running", id="it-runs"),
        pytest.param(
            looked_into(pod()), {"containers": {**UP, "debug": down(3, "debug")}}, "3 Error", id="it-has-ended"
        ),
        pytest.param(
            looked_into(pod()),
            {"containers": {**UP, "debug": up("debug", state=UNKNOWN)}},
            "137 ContainerStatusUnknown",
            id="the-runtime-has-lost-sight-of-it",
        ),
        pytest.param(
            looked_into(pod()),
            {
                "containers": {"web": down(0)},
                "lifecycle": Lifecycle.TERMINATED,
                "deletion": deletion(),
                "sandbox": sandbox(ready=False, stopped=True),
            },
            "ContainerCreating",
            id="it-never-ran-and-the-pod-is-down",
        ),
    ],
)
def test_its_state(source: PodJson, known: dict[str, Any], said: str) -> None:
    """With the kubelet's reasons."""
    here = situation(source, **known)
    assert state(here) == said
    status = status_of(here)
    assert (status.ready, status.started, status.restart_count) == (False, None, 0)
