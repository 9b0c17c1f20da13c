"""Does an ephemeral container start once, whatever else the pod is about, and count for nothing else of it?

The rows are the kubelet's TestComputePodActionsWithInitAndEphemeralContainers, and what its status says meanwhile.
"""

from typing import Any

import pytest
from kubernetes.client.models.v1_container_status import V1ContainerStatus

from proto.temporal.operator import AddEphemeralContainer, EphemeralContainerAdded
from proto.temporal.pod import (
    ContainerState,
    Failure,
    Hook,
    HookOutcome,
    ImageFacts,
    Lifecycle,
    PodJson,
)
from proto.temporal.requests import StartContainer, StopContainer
from proto.temporal.signals import PodListed
from tests.decide.situations import (
    HERE,
    KEY,
    Around,
    at,
    container,
    deletion,
    done,
    down,
    pod,
    read,
    sandbox,
    seen,
    situation,
    starting,
    stopping,
    told,
    up,
)
from workflows.decide import ephemeral, lifecycle
from workflows.decide.actions import image_key
from workflows.decide.containers import start_containers
from workflows.decide.explain import explanation
from workflows.decide.fold import fold_failure
from workflows.decide.hints import hear
from workflows.decide.images import pull_images
from workflows.decide.listing import without_ephemeral
from workflows.decide.pod_actions import pod_actions
from workflows.decide.sandbox import run_sandbox
from workflows.decide.situation import Situation
from workflows.decide.skips import waiting_backoffs
from workflows.decide.slices import container_slice
from workflows.decide.status import headline, pod_status
from workflows.decide.termination import stop_containers
from workflows.decide.updates import Change, changes, taken_over

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
    """Say what the pod's status says of an ephemeral container."""
    (one,) = [one for one in pod_status(here).ephemeral_container_statuses or () if one.name == name]
    return one


def state(here: Situation) -> str:
    """Say in short what its status says of its state."""
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
    assert told(list(start_containers(situation(source, **known)))) == decision


def test_it_starts_beside_a_hook_that_hangs() -> None:
    """A postStart hook holds the containers after it, and nobody who looks into the pod."""
    source = looked_into(pod("a", "b"))
    source["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["sleep", "1h"]}}}
    here = situation(source, containers={"a": up("a")})
    assert told(list(start_containers(here))) == ["StartContainer debug 0", f"RunHook a/{Hook.POST_START}/a-0"]
    after = situation(source, containers={"a": up("a"), "debug": up("debug")})
    assert told(list(start_containers(after))) == [f"RunHook a/{Hook.POST_START}/a-0"]
    ended = HookOutcome("a-0", succeeded=True)
    done_with = situation(source, containers={"a": up("a", post_start=ended), "debug": up("debug")})
    assert told(list(start_containers(done_with))) == ["StartContainer b 0"]


def test_only_one_container_starts_at_a_time() -> None:
    """Neither beside another one, nor another one beside it."""
    source = looked_into(pod())
    assert told(list(start_containers(situation(source, Around(busy=(starting(),)))))) == []
    assert told(list(start_containers(situation(source, Around(busy=(starting("debug"),)))))) == []


def test_its_image_is_pulled_like_any_other() -> None:
    """And what waits for it may be skipped."""
    source = looked_into(pod(), image="tools:1")
    here = situation(
        source, containers=UP, images={image_key("busybox:1", "IfNotPresent"): ImageFacts("i", pulled=True)}
    )
    assert told(list(pull_images(here))) == ["ReadImages"]
    failed = ImageFacts(reason="ErrImagePull", message="not found", backoff=here.settings.image_backoff_initial)
    failed.failed_at = at(-1)
    here.observed.images[image_key("tools:1", "IfNotPresent")] = failed
    assert told(list(pull_images(here))) == ["wake 9"]
    assert state(here) == "ErrImagePull: not found"
    assert [one.container for one in waiting_backoffs(here)] == ["debug"]
    ended = situation(source, containers={**UP, "debug": down(0, "debug")}, images={})
    assert "tools:1" not in str(list(pull_images(ended))), "of one that has ended it is not asked for again"


# --- the container that it looks into


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
    """It is started when that runs, and says what it waits for until then."""
    here = situation(looked_into(pod(), target="web"), containers=known)
    assert told(list(start_containers(here))) == decision
    assert state(here) == said


def test_a_start_names_the_instance_that_it_looks_into() -> None:
    """The newest one; and the container's slice says which it is."""
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
    assert "debug waits for the container that it is to look into: unable to find target container web" in said
    runs = situation(looked_into(pod()), containers={**UP, "debug": up("debug")})
    said = [one.text for one in explanation(runs, lambda action: type(action).__name__).sentences]
    assert said[0] == "Running and ready, web, debug run"
    assert "if debug ended now, it would stay down" in said


# --- what the pod's status says


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
    """The kubelet's words."""
    here = situation(source, **known)
    assert state(here) == said
    status = status_of(here)
    assert (status.ready, status.started, status.restart_count) == (False, None, 0)


@pytest.mark.parametrize(
    ("containers", "policy", "phase", "ready"),
    [
        pytest.param({**UP}, "Always", "Running", True, id="it-has-not-started"),
        pytest.param({**UP, "debug": down(1, "debug")}, "Never", "Running", True, id="it-has-failed"),
        pytest.param({"debug": up("debug")}, "Always", "Pending", False, id="it-runs-and-the-pod-does-not"),
        pytest.param(
            {"web": down(0), "debug": up("debug")}, "Never", "Running", False, id="the-pod-is-done-and-it-runs"
        ),
        pytest.param({"web": down(0), "debug": down(1, "debug")}, "Never", "Succeeded", False, id="both-have-ended"),
    ],
)
def test_it_counts_for_nothing(containers: dict[str, Any], policy: str, phase: str, ready: bool) -> None:
    """Neither in the phase, but that no phase is final while it runs, nor in readiness, restarts and reason."""
    here = situation(looked_into(pod(restartPolicy=policy)), containers=containers)
    status = pod_status(here)
    line = headline(here, status)
    assert (status.phase, line.ready, line.restarts) == (phase, ready, 0)
    assert "debug" not in line.message


def test_a_failed_initialization_is_final_at_once() -> None:
    """Whoever looks into the pod, and whatever is stopped after it."""
    source = looked_into(pod(init=["i"], restartPolicy="Never"))
    containers = {"i": down(1, "i"), "debug": up("debug")}
    for around in (HERE, Around(busy=(stopping("debug"),))):
        assert pod_status(situation(source, around, containers=containers)).phase == "Failed"


# --- how it goes


def test_a_pod_that_is_done_waits_for_no_one_who_looks() -> None:
    """It is finished, and what looks into it is stopped."""
    source = looked_into(pod(restartPolicy="Never"))
    here = situation(source, containers={"web": down(0), "debug": up("debug")})
    assert lifecycle.next_event(here) is lifecycle.Event.POD_FINISHED
    lifecycle.happened(here, lifecycle.Event.POD_FINISHED)
    assert told(pod_actions(here).begin) == ["StopContainer debug"]
    half_made = situation(source, containers={"web": down(0)}, failures={"container/debug": Failure("R", "m", at(-1))})
    lifecycle.happened(half_made, lifecycle.Event.POD_FINISHED)
    assert half_made.observed.runtime_stale, "one whose start failed may live nevertheless"


def test_it_is_stopped_at_once_and_nobody_waits_for_it() -> None:
    """Beside the regular containers; and sidecars stop before it if need be."""
    going: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion()}
    containers = {"side": up("side"), "web": up(), "debug": up("debug")}
    here = situation(looked_into(pod(init=[SIDE])), containers=containers, **going)
    assert told(list(stop_containers(here)))[:2] == ["StopContainer web", "StopContainer debug"]
    alone = situation(looked_into(pod(init=[SIDE])), containers={"side": up("side"), "debug": up("debug")}, **going)
    assert told(list(stop_containers(alone))) == ["StopContainer side", "StopContainer debug"]
    (stop,) = [one for one in stop_containers(here) if isinstance(one, StopContainer) and one.name == "debug"]
    assert (stop.grace, stop.reason) == (deletion().grace, "ManifestRemoved: web.yaml is gone")


def test_a_lost_sandbox_takes_it_along() -> None:
    """It is stopped with the others, and not started in the new one."""
    lost = situation(looked_into(pod()), containers={**UP, "debug": up("debug")}, sandbox=LOST)
    assert told(list(run_sandbox(lost))) == ["StopContainer web", "StopContainer debug"]
    anew = situation(
        looked_into(pod()), containers={"web": up(sandbox_id="s1"), "debug": down(137, "debug")}, sandbox=sandbox(1)
    )
    assert told(list(start_containers(anew))) == []


def test_it_runs_on_while_all_start_again() -> None:
    """A container whose end restarts all of them restarts none that looks."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}
    source = looked_into(pod("a", "b"))
    source["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    here = situation(source, containers={"a": down(7, "a"), "b": up("b"), "debug": up("debug")})
    assert told(list(start_containers(here))) == ["StopContainer b"]
    stopped = situation(source, containers={"a": down(7, "a"), "b": down(137, "b"), "debug": down(1, "debug")})
    assert told(list(start_containers(stopped))) == ["RemoveContainer b-0"]
    last = situation(source, containers={"a": down(7, "a"), "debug": down(1, "debug")})
    last.observed.dead_containers["debug"] = ("debug-x",)
    assert told(list(start_containers(last))) == ["RemoveContainer a-0"]


def test_one_whose_start_was_not_answered_is_found() -> None:
    """A re-read tells of it, and it is not started again."""
    here = situation(looked_into(pod()), containers=UP)
    fold_failure(here, starting("debug"), "DeadlineExceeded", "no answer")
    read(here, seen(), seen("debug", code=2))
    assert told(list(start_containers(here))) == []
    assert state(here) == "2 Error"
    gone = situation(looked_into(pod()), containers={**UP, "debug": up("debug")})
    read(gone, seen())
    assert state(gone) == "137 ContainerStatusUnknown"
    assert told(list(start_containers(gone))) == []


# --- how it is added


def asked(**fields: Any) -> AddEphemeralContainer:
    """Ask for one."""
    return AddEphemeralContainer("root@node-1", {"name": "debug", "image": "tools:1", **fields})


@pytest.mark.parametrize(
    ("request_", "known", "refusal"),
    [
        pytest.param(asked(), {}, "", id="a-running-pod-takes-it"),
        pytest.param(
            asked(name="web"), {}, 'Invalid: spec.ephemeralContainers[0].name: Duplicate value: "web"', id="taken-name"
        ),
        pytest.param(
            asked(targetContainerName="api"),
            {},
            'Invalid: spec.ephemeralContainers[0].targetContainerName: Not found: "api"',
            id="absent-target",
        ),
        pytest.param(
            asked(),
            {"deletion": deletion()},
            "PodIsOver: default/web is going (ManifestRemoved): nothing starts in it any more",
            id="a-pod-that-goes",
        ),
        pytest.param(
            asked(),
            {"lifecycle": Lifecycle.TERMINATED},
            "PodIsOver: default/web has finished: nothing starts in it any more",
            id="a-pod-that-has-finished",
        ),
    ],
)
def test_when_it_is_refused(request_: AddEphemeralContainer, known: dict[str, Any], refusal: str) -> None:
    """Before history knows of it."""
    why = ephemeral.why_not(situation(containers=UP, **known), request_)
    assert (f"{why.reason}: {why.message}" if why else "") == refusal


def test_the_pod_with_it() -> None:
    """One more at the end of the list, with its defaults; the pod before is not touched."""
    before = looked_into(pod(), "first")
    after = ephemeral.with_asked(situation(before, containers=UP), asked(targetContainerName="web"))
    assert after is not None
    assert [one["name"] for one in before["spec"]["ephemeralContainers"]] == ["first"]
    first, added = after["spec"]["ephemeralContainers"]
    assert first == before["spec"]["ephemeralContainers"][0]
    assert (added["imagePullPolicy"], added["terminationMessagePath"]) == ("IfNotPresent", "/dev/termination-log")
    here = situation(after, containers=UP)
    assert ephemeral.said_added(here, asked(targetContainerName="web")) == EphemeralContainerAdded(
        "root@node-1", KEY.uid, "debug", "tools:1", "web"
    )
    down_now = situation(after, containers={"web": down(1)})
    assert (
        ephemeral.said_added(down_now, asked(targetContainerName="web")).waits_for
        == "target container web is not running"
    )


def test_what_a_source_lists_removes_and_changes_none() -> None:
    """It may add to them; a manifest does not know of those that were added here, nor does another life."""
    mine = looked_into(pod())
    assert changes(mine, pod()) == []
    assert taken_over(mine, pod())["spec"] == mine["spec"]
    assert taken_over(pod(), pod())["spec"] == pod()["spec"]
    listed = looked_into(pod(), "debug", "more", image="other:1")
    assert changes(mine, listed) == [Change("ephemeral container more added", in_place=True)]
    names = [(one["name"], one["image"]) for one in taken_over(mine, listed)["spec"]["ephemeralContainers"]]
    assert names == [("debug", "busybox:1"), ("more", "other:1")]
    assert without_ephemeral(mine) == pod()


def test_a_listing_that_knows_of_none_replaces_no_pod() -> None:
    """Neither one that may change it in place nor one that may not."""
    for in_place in (True, False):
        here = situation(looked_into(pod()), containers=UP)
        assert hear(here, PodListed("file", pod=pod(), in_place=in_place)) is None
        assert here.observed.deletion is None


def test_what_is_asked_and_listed_becomes_the_pod() -> None:
    """The operator's one at once, the API's with the next listing."""
    here = situation(pod(), containers=UP)
    added = hear(here, asked())
    assert added is not None
    assert added == ephemeral.with_asked(here, asked())
    assert hear(situation(added, containers=UP), asked()) is None, "another one of this name"
    listed = hear(here, PodListed("api", pod=looked_into(pod()), in_place=True))
    assert listed is not None
    assert listed["spec"] == looked_into(pod())["spec"]
