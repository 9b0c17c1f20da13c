"""Which container starts next, and what is cleaned up?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import StartContainer, StopContainer
from proto.temporal.images import ImageFacts
from proto.temporal.pod import ContainerFacts, ContainerState, Failure
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    Context,
    at,
    describe_all,
    done,
    down,
    pod,
    sandbox,
    situation,
    up,
)
from workflows.decide.containers.standing import Standing, standing
from workflows.decide.slices import container_slice, sandbox_slice
from workflows.decide.steps.containers import start, start_containers, tidy

UNKNOWN, CREATED = ContainerState.UNKNOWN, ContainerState.CREATED
LOOPING: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
REFUSED = Failure("CreateContainerError", "no such device", at(-4))


@pytest.mark.parametrize(
    ("source", "known", "decision"),
    [
        pytest.param(pod("a", "b"), {}, ["StartContainer a 0"], id="the-first-of-two-one-at-a-time"),
        pytest.param(pod("a", "b"), {"containers": {"a": up("a")}}, ["StartContainer b 0"], id="then-the-second"),
        pytest.param(pod("a", "b"), {"containers": {"a": up("a"), "b": up("b")}}, [], id="nothing-while-all-run"),
        pytest.param(pod(), {"sandbox": None}, [], id="nothing-without-a-sandbox"),
        pytest.param(pod(), {"sandbox": sandbox(ready=False)}, [], id="nothing-in-a-lost-sandbox"),
        pytest.param(pod(), {"directories": False}, [], id="nothing-before-the-directories-are-made"),
        pytest.param(pod(), {"images": {}}, [], id="nothing-before-its-image-is-there"),
        pytest.param(pod(init=["i", "j"]), {}, ["StartContainer i 0"], id="the-first-init-container-first"),
        pytest.param(pod(init=["i", "j"]), {"containers": {"i": up("i")}}, [], id="the-next-one-waits-while-it-runs"),
        pytest.param(
            pod(init=["i", "j"]), {"containers": {"i": done("i")}}, ["StartContainer j 0"], id="and-follows-its-success"
        ),
        pytest.param(
            pod(init=["i"]), {"containers": {"i": done("i")}}, ["StartContainer web 0"], id="regular-ones-come-last"
        ),
        pytest.param(
            pod(init=["i"]), {"containers": {"i": down(1, "i")}}, ["StartContainer i 1"], id="a-failed-init-comes-again"
        ),
        pytest.param(
            pod(init=["i"], restartPolicy="Never"), {"containers": {"i": down(1, "i")}}, [], id="but-not-under-never"
        ),
        pytest.param(
            pod(init=["i"]),
            {"containers": {"i": done("i"), "web": down(137)}, "sandbox": sandbox(1)},
            ["StartContainer i 1"],
            id="a-new-sandbox-is-initialized-anew",
        ),
        pytest.param(
            pod(init=["i"]),
            {"containers": {"i": ContainerFacts(done_in_sandbox="s0"), "web": down(1)}},
            ["StartContainer web 1"],
            id="an-init-container-stays-done-without-any-record-of-it",
        ),
        pytest.param(pod(), {"containers": {"web": down(1)}}, ["StartContainer web 1"], id="first-restart-at-once"),
        pytest.param(pod(), {"containers": {"web": down(1, attempt=2, **LOOPING)}}, ["wake 40"], id="later-ones-wait"),
        pytest.param(
            pod(),
            {"containers": {"web": down(1, attempt=2, ended=-40, **LOOPING)}},
            ["StartContainer web 3"],
            id="until-the-backoff-is-over",
        ),
        pytest.param(
            pod("a", "b"),
            {"containers": {"a": down(1, "a", attempt=2, **LOOPING)}},
            ["wake 40", "StartContainer b 0"],
            id="a-waiting-container-holds-nobody-up",
        ),
        pytest.param(
            pod("a", "b"),
            {"failures": {"container/a": REFUSED}},
            ["wake 6", "StartContainer b 0"],
            id="nor-does-one-that-could-not-be-started",
        ),
        pytest.param(
            pod(), {"containers": {"web": up(state=CREATED)}}, ["StartContainer web 0"], id="created-is-started"
        ),
        pytest.param(pod(), {"containers": {"web": up(state=UNKNOWN)}}, ["StopContainer web"], id="unknown-is-stopped"),
        pytest.param(
            pod(), {"containers": {"web": up(sandbox_id="old")}}, [], id="nothing-beside-one-that-lives-elsewhere"
        ),
        pytest.param(
            pod("a", "b"), {"containers": {"b": up("b", sandbox_id="old")}}, [], id="nor-before-the-last-one-is-stopped"
        ),
        pytest.param(
            pod("a", "b", restartPolicy="OnFailure"),
            {"containers": {"a": down(0, "a"), "b": down(2, "b")}},
            ["StartContainer b 1"],
            id="on-failure-leaves-successes",
        ),
    ],
)
def test_start_containers(source: dict[str, Any], known: dict[str, Any], decision: list[str]) -> None:
    """Which container starts, and which one it waits for."""
    assert describe_all(list(start_containers(situation(source, **known)))) == decision


def test_one_out_of_sight_has_the_pod_s_grace() -> None:
    """It may be running, and is stopped like any other."""
    here = situation(pod(terminationGracePeriodSeconds=60), containers={"web": up(state=UNKNOWN)})
    (stop,) = start_containers(here)
    assert isinstance(stop, StopContainer)
    assert stop.grace == timedelta(seconds=60)


def test_one_start_at_a_time() -> None:
    """While one starts, the next one waits."""
    here = situation(pod("a", "b"))
    context = Context(busy=(start(here, here.containers[0]),))
    assert not list(start_containers(situation(pod("a", "b"), context)))


def test_what_a_start_is_told() -> None:
    """The narrowest slice, the sandbox, its addresses, and the next attempt."""
    here = situation(pod("a", "b"), sandbox=sandbox(2), containers={"a": down(1, "a", attempt=4)})
    expected = StartContainer(
        pod=here.key,
        sandbox_id="s2",
        attempt=5,
        image_ref="sha256:1",
        container=container_slice(here.source, "a"),
        sandbox_spec=sandbox_slice(here.source),
        sandbox_attempt=2,
        ips=("10.88.0.5",),
    )
    assert start(here, here.containers[0]) == expected


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        pytest.param("first", True, id="an-init-container-that-the-next-one-waits-for"),
        pytest.param("beside", False, id="a-sidecar-runs-on"),
        pytest.param("web", False, id="a-regular-container-runs-on"),
    ],
)
def test_a_start_waits_for_an_end_that_is_expected(name: str, waits: bool) -> None:
    """Only then, and only briefly."""
    here = situation(pod("web", init=["first", "+beside"]))
    (container,) = [one for one in (*here.init_containers, *here.containers) if one.name == name]
    assert bool(start(here, container).end_within) is waits
    assert start(here, container).end_within <= timedelta(milliseconds=200)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(ContainerFacts(), Standing.WANTED, id="never-seen"),
        pytest.param(up(), Standing.UP, id="running-here"),
        pytest.param(up(state=UNKNOWN), Standing.UNKNOWN, id="unknown-here"),
        pytest.param(up(sandbox_id="old"), Standing.LOST, id="running-elsewhere"),
        pytest.param(up(sandbox_id="old", state=UNKNOWN), Standing.LOST, id="unknown-elsewhere"),
        pytest.param(down(1), Standing.WANTED, id="ended-and-comes-back"),
        pytest.param(down(1, sandbox_id="old"), Standing.WANTED, id="ended-elsewhere-and-comes-back"),
    ],
)
def test_standing(facts: ContainerFacts, expected: Standing) -> None:
    """What happens next to a regular container with policy Always."""
    here = situation(containers={"web": facts})
    assert standing(here, here.containers[0]) is expected


@pytest.mark.parametrize(
    ("known", "context", "removed"),
    [
        pytest.param({}, DEFAULT_CONTEXT, [], id="nothing-is-left-over"),
        pytest.param(
            {"dead_containers": {"web": ("web-0",)}}, DEFAULT_CONTEXT, [], id="the-newest-dead-instance-stays"
        ),
        pytest.param(
            {"dead_containers": {"web": ("web-0", "web-1", "web-2")}},
            DEFAULT_CONTEXT,
            ["RemoveContainer web-0", "RemoveContainer web-1"],
            id="older-ones-go",
        ),
        pytest.param({"old_sandboxes": ("s0",)}, DEFAULT_CONTEXT, ["RemovePodSandbox s0"], id="a-lost-sandbox-goes"),
        pytest.param(
            {
                "old_sandboxes": ("s0",),
                "containers": {"web": down(1, attempt=3, **LOOPING)},
                "dead_containers": {"web": ("web-0", "web-1")},
            },
            DEFAULT_CONTEXT,
            ["RemovePodSandbox s0", "RemoveContainer web-0"],
            id="a-crash-loop-is-tidied-while-it-waits",
        ),
        pytest.param(
            {"old_sandboxes": ("s0",), "containers": {}},
            DEFAULT_CONTEXT,
            [],
            id="nothing-is-removed-while-a-container-can-start",
        ),
        pytest.param(
            {"old_sandboxes": ("s0",), "containers": {}, "images": {}},
            DEFAULT_CONTEXT,
            ["RemovePodSandbox s0"],
            id="an-image-that-never-comes-keeps-no-old-sandbox",
        ),
        pytest.param(
            {"old_sandboxes": ("s0",), "sandbox": None}, DEFAULT_CONTEXT, [], id="not-before-the-new-sandbox-is-there"
        ),
    ],
)
def test_tidy(known: dict[str, Any], context: Context, removed: list[str]) -> None:
    """What is no longer needed is removed."""
    facts = {"sandbox": sandbox(1), "containers": {"web": up(sandbox_id="s1", attempt=3)}, **known}
    for one in facts["containers"].values():
        one.sandbox_id = "s1"
    assert describe_all(list(tidy(situation(context=context, **facts)))) == removed


def test_a_pulled_image_is_enough() -> None:
    """An image's earlier failures don't matter once it is present."""
    images = {"busybox:1 IfNotPresent": ImageFacts("sha256:2", pulled=True, failed_at=at(-1))}
    assert describe_all(list(start_containers(situation(images=images)))) == ["StartContainer web 0"]
