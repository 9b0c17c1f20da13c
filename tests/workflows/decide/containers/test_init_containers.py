"""In which order do containers of a pod with sidecars start, and which are restarted when?

The rows of the kubelet's TestComputePodActionsWithRestartableInitContainers without probes, and ours.
"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.pod import ContainerFacts, ContainerState, ProbeFact, ProbeKind
from tests.workflows.decide.situations import (
    Context,
    at,
    describe_all,
    done,
    down,
    pod,
    read,
    sandbox,
    seen,
    situation,
    starting,
    up,
)
from workflows.decide.steps.containers import start_containers
from workflows.decide.steps.images import pull_images
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.steps.sandbox import may_have_sandbox

CREATED, UNKNOWN = ContainerState.CREATED, ContainerState.UNKNOWN
LOOPING: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
THREE = ["+r", "+s", "+t"]
UP = {"r": up("r"), "s": up("s"), "t": up("t")}
MIXED = ["i", "+s", "j"]


@pytest.mark.parametrize(
    ("init", "containers", "decision"),
    [
        pytest.param(THREE, {}, ["StartContainer r 0"], id="the-first-one-first"),
        pytest.param(THREE, {"r": up("r")}, ["StartContainer s 0"], id="the-next-one-once-it-is-started"),
        pytest.param(THREE, UP, ["StartContainer web 0"], id="all-are-started-so-the-pod-is-initialized"),
        pytest.param(
            THREE, {**UP, "t": up("t", state=CREATED)}, ["StartContainer t 0"], id="stuck-in-created-and-started-again"
        ),
        pytest.param(
            THREE,
            {**UP, "r": down(1, "r"), "t": down(1, "t")},
            ["StartContainer r 1"],
            id="one-that-ended-and-the-last-one-but-nothing-regular",
        ),
        pytest.param(
            THREE, {**UP, "r": down(1, "r")}, ["StartContainer r 1"], id="an-ended-one-first-then-the-regular-ones"
        ),
        pytest.param(
            THREE,
            {**UP, "r": down(1, "r", **LOOPING)},
            ["wake 40", "StartContainer web 0"],
            id="a-crash-loop-of-one-that-was-passed-holds-nobody-up",
        ),
        pytest.param(
            THREE, {**UP, "t": down(1, "t", **LOOPING)}, ["wake 40"], id="but-that-of-the-last-one-does-before-any-ran"
        ),
        pytest.param(
            THREE, {**UP, "t": up("t", state=UNKNOWN)}, ["StopContainer t"], id="an-unknown-one-is-stopped-first"
        ),
        pytest.param(
            THREE,
            {**UP, "t": down(137, "t"), "web": up()},
            ["StartContainer t 1"],
            id="one-that-ended-while-a-regular-one-runs",
        ),
        pytest.param(
            THREE,
            {**UP, "t": down(1, "t", **LOOPING), "web": down(1)},
            ["wake 40"],
            id="an-ended-regular-one-waits-for-the-last-sidecar",
        ),
        pytest.param(THREE, {"t": up("t")}, ["StartContainer r 0"], id="those-that-the-runtime-forgot-run-again"),
        pytest.param(
            MIXED, {"i": done("i"), "s": up("s")}, ["StartContainer j 0"], id="beside-the-next-init-container"
        ),
        pytest.param(MIXED, {"i": done("i"), "s": up("s"), "j": up("j")}, [], id="which-is-waited-for"),
        pytest.param(
            MIXED,
            {"i": done("i"), "s": down(0, "s"), "j": up("j")},
            ["StartContainer s 1"],
            id="restarted-while-a-later-init-container-runs",
        ),
        pytest.param(
            MIXED,
            {"i": done("i"), "s": down(0, "s", **LOOPING), "j": down(1, "j")},
            ["wake 40", "StartContainer j 1"],
            id="and-its-backoff-does-not-hold-that-one-up",
        ),
        pytest.param(
            MIXED, {"i": done("i"), "s": down(1, "s", **LOOPING)}, ["wake 40"], id="but-one-that-has-not-begun-waits"
        ),
        pytest.param(
            MIXED,
            {"i": done("i"), "s": ContainerFacts(), "j": done("j"), "web": up()},
            ["StartContainer s 0"],
            id="an-init-container-that-ended-is-never-run-again-a-sidecar-is",
        ),
    ],
)
def test_start_containers(init: list[str], containers: dict[str, Any], decision: list[str]) -> None:
    """Which container starts, and which one it waits for."""
    assert describe_all(list(start_containers(situation(pod(init=init), containers=containers)))) == decision


STARTED, NOT_STARTED = ProbeFact(success=True, sequence=1), ProbeFact(success=False, sequence=1)


@pytest.mark.parametrize(
    ("startup", "decision"),
    [
        pytest.param({}, ["ProbeContainer s"], id="asked-and-not-answered-yet"),
        pytest.param({ProbeKind.STARTUP: NOT_STARTED}, ["StopContainer s"], id="failed-and-restarted"),
        pytest.param({ProbeKind.STARTUP: STARTED}, ["StartContainer i 0", "ProbeContainer s"], id="passed"),
    ],
)
def test_a_startup_probe_holds_up_what_comes_next(startup: dict[ProbeKind, ProbeFact], decision: list[str]) -> None:
    """The next init container waits until the sidecar has started, also in a pod that never restarts."""
    source = pod(init=["+s", "i"], restartPolicy="Never")
    source["spec"]["initContainers"][0]["startupProbe"] = {"tcpSocket": {"port": 80}}
    here = situation(source, containers={"s": up("s", probes=startup)})
    assert describe_all(pod_actions(here).begin) == decision


def test_a_sidecar_that_failed_its_liveness_probe_restarts_alone() -> None:
    """While the regular container keeps running."""
    source = pod(init=["+s"], restartPolicy="Never")
    source["spec"]["initContainers"][0]["livenessProbe"] = {"tcpSocket": {"port": 80}}
    probes = {ProbeKind.LIVENESS: NOT_STARTED}
    (stop,) = pod_actions(situation(source, containers={"s": up("s", probes=probes), "web": up()})).begin
    assert (describe_all([stop]), getattr(stop, "reason", "")) == (
        ["StopContainer s"],
        "Init container s failed liveness probe",
    )


@pytest.mark.parametrize(
    ("containers", "decision"),
    [
        pytest.param({**UP, "t": down(137, "t")}, ["StartContainer t 1"], id="before-the-regular-ones"),
        pytest.param({**UP, "t": down(0, "t"), "web": up()}, ["StartContainer t 1"], id="beside-a-regular-one"),
        pytest.param({**UP, "t": up("t", state=UNKNOWN)}, ["StopContainer t"], id="an-unknown-one"),
    ],
)
def test_sidecars_start_again_in_a_pod_that_never_restarts(containers: dict[str, Any], decision: list[str]) -> None:
    """A sidecar's own policy is Always."""
    here = situation(pod(init=THREE, restartPolicy="Never"), containers=containers)
    assert describe_all(list(start_containers(here))) == decision


@pytest.mark.parametrize(
    ("source", "containers"),
    [
        pytest.param(
            pod(init=THREE, restartPolicy="Never"),
            {**UP, "t": down(1, "t"), "web": down(0)},
            id="the-regular-ones-are-done",
        ),
        pytest.param(
            pod(init=["+s", "i"], restartPolicy="Never"),
            {"s": down(1, "s"), "i": down(1, "i")},
            id="initialization-has-failed-for-good",
        ),
    ],
)
def test_nothing_starts_a_sidecar_of_a_pod_that_is_through(source: dict[str, Any], containers: dict[str, Any]) -> None:
    """Nor is its image pulled."""
    here = situation(source, containers=containers, images={})
    assert [*start_containers(here), *pull_images(here)] == []


def test_one_start_at_a_time() -> None:
    """Also for a restarted sidecar and a regular container's first start."""
    context = Context(busy=(starting("r", 1),))
    assert not list(start_containers(situation(pod(init=THREE), context, containers={**UP, "r": down(1, "r")})))


@pytest.mark.parametrize(
    ("policy", "containers", "wanted"),
    [
        pytest.param("Never", {**UP, "t": down(137, "t")}, False, id="never-and-something-ran"),
        pytest.param("Never", {}, True, id="never-and-nothing-ran"),
        pytest.param("OnFailure", {**UP, "t": down(137, "t")}, True, id="on-failure"),
        pytest.param("Always", {**UP, "t": down(137, "t")}, True, id="always"),
        pytest.param("OnFailure", {**UP, "web": down(0)}, False, id="on-failure-and-the-regular-one-succeeded"),
    ],
)
def test_a_lost_sandbox_is_made_anew(policy: str, containers: dict[str, Any], wanted: bool) -> None:
    """If a regular container still has to run; sidecars alone need none."""
    here = situation(pod(init=THREE, restartPolicy=policy), containers=containers, sandbox=sandbox(ready=False))
    assert may_have_sandbox(here) is wanted


def test_a_new_sandbox_begins_with_the_first_sidecar() -> None:
    """All containers run again, in order."""
    ended = {name: down(137, name) for name in ("r", "s", "t", "web")}
    here = situation(pod(init=THREE), containers=ended, sandbox=sandbox(1))
    assert describe_all(list(start_containers(here))) == ["StartContainer r 1"]


def test_a_sidecar_is_never_done() -> None:
    """Neither an exit code of 0 nor the start of a later container completes it."""
    here = situation(pod(init=["+s", "i"]), containers={"s": up("s"), "i": up("i")})
    known = read(here, seen("s", code=0), seen("i", code=0), seen("web"))
    assert (known.containers["s"].done_in_sandbox, known.containers["i"].done_in_sandbox) == ("", "s0")


def test_a_fresh_pod_asks_for_every_image_at_once() -> None:
    """Including a sidecar's."""
    here = situation(pod(init=["+s"]), images={}, sandbox=None)
    assert describe_all(pod_actions(here).begin) == ["ReadImages", "RunPodSandbox 0"]
