"""Does an explanation say what the pod waits for, what holds it back, and what would truly come next?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.operator import SentenceKind
from proto.temporal.pod import Eviction, Failure, GivenCondition, ImageFacts, Lifecycle, ProbeFact, ProbeKind
from proto.temporal.requests import PullImage, RunPodSandbox, StartContainer
from tests.decide.situations import (
    HERE,
    IMAGE,
    KEY,
    READ,
    Around,
    at,
    container,
    deletion,
    done,
    down,
    pod,
    sandbox,
    situation,
    starting,
    stopping,
    up,
    words,
)
from workflows.decide.actions import image_key
from workflows.decide.explain import explanation
from workflows.decide.pod_actions import pod_actions

KEY_OF_IMAGE = image_key(IMAGE, "IfNotPresent")
PULL = PullImage(KEY, IMAGE, "IfNotPresent")
RUN = RunPodSandbox(KEY, 0, {}, ("web",))
ABSENT = {KEY_OF_IMAGE: ImageFacts()}
NOT_FOUND = ImageFacts(reason="ErrImagePull", message="not found", backoff=timedelta(seconds=20), failed_at=at(-5))
FORTY: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
LOOPS = down(1, attempt=3, **FORTY)
NEW: dict[str, Any] = {"sandbox": None, "directories": False}
GONE = sandbox(ready=False, stopped=True)
UP = {"containers": {"web": up()}}
ASKED = {"tcpSocket": {"port": 80}}
PROBED = pod(containers=[container("web", startupProbe=ASKED, readinessProbe=ASKED)])
REFUSED = ProbeFact(success=False, message="connection refused")
TOO_LONG = Eviction(at(-5), "DeadlineExceeded", "too long")
NOT_READY = Failure("NetworkNotReady", "cni is away", at(-1), tries=3)


def said(kind: SentenceKind, source: dict[str, Any] | None, around: Around, known: dict[str, Any]) -> list[str]:
    """Give the sentences of one kind."""
    told = explanation(situation(source, around, **known), words)
    return [one.text for one in told.sentences if one.kind is kind]


@pytest.mark.parametrize(
    ("source", "around", "known", "text"),
    [
        pytest.param(pod(), HERE, {"containers": {"web": up()}}, "Running and ready, web runs", id="running"),
        pytest.param(
            pod(),
            HERE,
            {"containers": {"web": LOOPS}},
            "Running and not ready, nothing of it runs, CrashLoopBackOff",
            id="a-crash-loop",
        ),
        pytest.param(
            pod("a", "b"),
            HERE,
            {"containers": {"a": up("a"), "b": up("b")}},
            "Running and ready, a, b run",
            id="two-run",
        ),
        pytest.param(pod(), HERE, NEW, "Pending and not ready, nothing of it runs, ContainerCreating", id="on-its-way"),
        pytest.param(
            pod(),
            HERE,
            {"containers": {"web": up()}, "deletion": deletion(grace=5), "lifecycle": Lifecycle.TERMINATING},
            "it is going, web runs: ManifestRemoved: web.yaml is gone (grace 5 s)",
            id="going",
        ),
        pytest.param(
            pod(restartPolicy="Never"),
            HERE,
            {"containers": {"web": down(0)}, "lifecycle": Lifecycle.TERMINATING},
            "Succeeded: it has finished, and it is being stopped",
            id="just-finished",
        ),
        pytest.param(
            pod(),
            HERE,
            {"containers": {"web": up()}, "lifecycle": Lifecycle.TERMINATING, "eviction": TOO_LONG},
            "Running: DeadlineExceeded (too long), and it is being stopped",
            id="active-for-too-long",
        ),
        pytest.param(
            pod(),
            HERE,
            {"containers": {"web": down(0)}, "lifecycle": Lifecycle.TERMINATED, "eviction": TOO_LONG, "sandbox": GONE},
            "Failed: DeadlineExceeded (too long), and its source still lists it",
            id="was-active-for-too-long",
        ),
        pytest.param(
            pod(restartPolicy="Never"),
            HERE,
            {"containers": {"web": down(3)}, "lifecycle": Lifecycle.TERMINATED, "sandbox": GONE},
            "Failed: it has finished, and its source still lists it",
            id="finished",
        ),
        pytest.param(
            pod(),
            HERE,
            {
                "containers": {"web": down(0)},
                "deletion": deletion(),
                "lifecycle": Lifecycle.TERMINATED,
                "sandbox": GONE,
            },
            "Succeeded: every container is down, and what is left of it is being removed",
            id="almost-gone",
        ),
    ],
)
def test_where_it_stands(source: dict[str, Any], around: Around, known: dict[str, Any], text: str) -> None:
    """One sentence, always."""
    assert said(SentenceKind.STANDS, source, around, known) == [text]


@pytest.mark.parametrize(
    ("source", "known", "sentences"),
    [
        pytest.param(pod(), {"containers": {"web": up()}}, [], id="a-running-pod-waits-for-nothing"),
        pytest.param(
            pod(),
            {"containers": {"web": LOOPS}},
            [
                (
                    "CrashLoopBackOff: restart 4 of web",
                    40,
                    "it ended with exit 1 Error, and has ended 4 times",
                    "`tempolet skip-backoff default/web` ends this wait",
                )
            ],
            id="a-crash-loop",
        ),
        pytest.param(
            pod("a", "b"),
            {"containers": {"a": down(1, "a", **FORTY), "b": down(2, "b", ended=-20, **FORTY)}},
            [
                (
                    "CrashLoopBackOff: restart 1 of b",
                    20,
                    "it ended with exit 2 Error, and has ended once",
                    "`tempolet skip-backoff default/web b` ends this wait",
                ),
                (
                    "CrashLoopBackOff: restart 1 of a",
                    40,
                    "it ended with exit 1 Error, and has ended once",
                    "`tempolet skip-backoff default/web a` ends this wait",
                ),
            ],
            id="all-waits-the-earliest-first",
        ),
        pytest.param(
            pod(),
            {"images": {KEY_OF_IMAGE: NOT_FOUND}},
            [
                (
                    "ErrImagePull: pull busybox:1 again",
                    15,
                    "it failed with ErrImagePull: not found",
                    "`tempolet skip-backoff default/web` ends this wait",
                )
            ],
            id="an-image",
        ),
        pytest.param(
            pod(),
            {**NEW, "failures": {"sandbox": NOT_READY}},
            [
                (
                    "NetworkNotReady: try sandbox again",
                    3,
                    "it failed 3 times, the last time with NetworkNotReady: cni is away",
                    "",
                )
            ],
            id="a-step-that-fails",
        ),
    ],
)
def test_what_it_waits_for(
    source: dict[str, Any], known: dict[str, Any], sentences: list[tuple[str, float, str, str]]
) -> None:
    """What, until when, why, and what can be done."""
    told = explanation(situation(source, **known), words).sentences
    waits = [one for one in told if one.kind is SentenceKind.WAITS]
    assert [(one.text, one.at, one.because, one.remedy) for one in waits] == [
        (text, at(seconds), because, remedy) for text, seconds, because, remedy in sentences
    ]


@pytest.mark.parametrize(
    ("source", "around", "known", "texts"),
    [
        pytest.param(pod(), HERE, {"containers": {"web": up()}}, [], id="nothing"),
        pytest.param(pod(), HERE, {"containers": {"web": LOOPS}}, [], id="a-crash-loop-has-its-own-wait"),
        pytest.param(
            pod("a", "b"),
            Around(busy=(RUN,)),
            NEW,
            ["a, b wait for the sandbox, which is being made"],
            id="by-the-sandbox",
        ),
        pytest.param(
            pod(),
            HERE,
            {**NEW, "failures": {"sandbox": NOT_READY}},
            ["web waits for the sandbox, which is not ready"],
            id="by-a-sandbox-that-fails",
        ),
        pytest.param(pod(), HERE, {"directories": False}, ["web waits for the pod's directories"], id="by-directories"),
        pytest.param(
            pod("a", init=["i", "j"]),
            HERE,
            {"containers": {"i": up("i")}},
            ["j, a wait for init container i"],
            id="by-an-init-container",
        ),
        pytest.param(
            pod("a", init=["i", "j"]),
            HERE,
            {"containers": {"i": done("i"), "j": down(1, "j", **FORTY)}},
            ["a waits for init container j"],
            id="by-an-init-container-in-back-off",
        ),
        pytest.param(
            pod(),
            Around(busy=(PULL,)),
            {"images": ABSENT},
            ["web waits for its image busybox:1, which is being pulled"],
            id="by-a-pull",
        ),
        pytest.param(
            pod(),
            HERE,
            {"images": {KEY_OF_IMAGE: NOT_FOUND}},
            ["web waits for its image busybox:1, which could not be had: ErrImagePull"],
            id="by-an-image-that-is-not-there",
        ),
        pytest.param(
            pod(), HERE, {"images": {}}, ["web waits for its image busybox:1, which is looked for"], id="by-a-look"
        ),
        pytest.param(
            pod("a", "b"),
            Around(busy=(starting("a"),)),
            {},
            ["b waits for a: containers start one at a time"],
            id="turns",
        ),
        pytest.param(
            PROBED,
            HERE,
            UP,
            ["web runs and is not ready: its startup probe has not come to a verdict"],
            id="by-a-probe-that-was-not-asked-yet",
        ),
        pytest.param(
            PROBED,
            HERE,
            {
                "containers": {
                    "web": up(probes={ProbeKind.STARTUP: ProbeFact(success=True), ProbeKind.READINESS: REFUSED})
                }
            },
            ["web runs and is not ready: its readiness probe fails: connection refused"],
            id="by-a-probe-that-fails",
        ),
        pytest.param(
            PROBED,
            HERE,
            {"containers": {"web": up(probes=dict.fromkeys(ProbeKind, ProbeFact(success=True)))}},
            [],
            id="by-no-probe-that-succeeds",
        ),
        pytest.param(
            pod(initContainers=[container("s", restartPolicy="Always", startupProbe=ASKED)]),
            HERE,
            {"containers": {"s": up("s")}},
            ["s runs and is not ready: its startup probe has not come to a verdict", "web waits for init container s"],
            id="by-a-sidecar-that-has-not-started",
        ),
        pytest.param(
            pod(initContainers=[container("s", restartPolicy="Always", readinessProbe=ASKED)]),
            HERE,
            {"containers": {"s": up("s", probes={ProbeKind.READINESS: REFUSED}), "web": up()}},
            ["s runs and is not ready: its readiness probe fails: connection refused"],
            id="by-a-sidecar-that-is-not-ready",
        ),
        pytest.param(
            pod("a", "b"), HERE, {}, ["b waits for a: containers start one at a time"], id="by-one-that-starts-now"
        ),
        pytest.param(
            pod("a", "b"),
            Around(busy=(stopping("a"), PULL)),
            {"containers": {"a": up("a", sandbox_id="s9")}},
            ["b waits for StopContainer a"],
            id="by-whatever-else-is-under-way",
        ),
        pytest.param(
            pod(),
            HERE,
            {**NEW, "waiting_for": "pod u-0 of this name is still here"},
            ["the sandbox waits for the pod's predecessor: pod u-0 of this name is still here"],
            id="by-its-predecessor",
        ),
        pytest.param(
            pod(), Around(busy=(READ,)), {}, ["nothing begins before the runtime has been read"], id="by-a-re-read"
        ),
        pytest.param(
            pod(),
            Around(busy=(starting(),)),
            {"runtime_stale": True},
            ["nothing begins before the runtime has been read, and that waits for: StartContainer web 0"],
            id="by-a-re-read-that-waits-itself",
        ),
        pytest.param(
            pod(),
            Around(busy=(stopping(),)),
            {"containers": {"web": up()}, "deletion": deletion(), "lifecycle": Lifecycle.TERMINATING},
            ["the sandbox stays until web is down"],
            id="the-undoing-too",
        ),
        pytest.param(
            pod(readinessGates=[{"conditionType": "gate1"}]),
            HERE,
            UP,
            ['Ready waits for a readiness gate: corresponding condition of pod readiness gate "gate1" does not exist.'],
            id="readiness-by-a-gate",
        ),
    ],
)
def test_what_is_held_back(source: dict[str, Any], around: Around, known: dict[str, Any], texts: list[str]) -> None:
    """And by what."""
    assert said(SentenceKind.HELD, source, around, known) == texts


GOING = {"deletion": deletion(), "lifecycle": Lifecycle.TERMINATING}
STAYS = "it stays like that until its source no longer lists it; then its containers, sandbox, directories and logs go"


@pytest.mark.parametrize(
    ("source", "around", "known", "texts"),
    [
        pytest.param(
            pod(), HERE, UP, ["if web ended now, it would start again at once (restart 1)"], id="always-comes-back"
        ),
        pytest.param(
            pod(),
            HERE,
            {"containers": {"web": up(attempt=3, **FORTY)}},
            ["if web ended now, it would start again after 40 s (restart 4)"],
            id="after-the-back-off-it-has-earned",
        ),
        pytest.param(
            pod(restartPolicy="OnFailure"),
            HERE,
            UP,
            [
                "if web succeeded now, the pod would be over: Succeeded",
                "if web failed now, it would start again at once (restart 1)",
            ],
            id="on-failure-asks-how",
        ),
        pytest.param(
            pod(init=["+s"], restartPolicy="Never"),
            HERE,
            {"containers": {"s": up("s"), "web": up()}},
            [
                "if s ended now, it would start again at once (restart 1)",
                "if web succeeded now, the pod would be over: Succeeded",
                "if web failed now, the pod would be over: Failed",
            ],
            id="a-sidecar-comes-back-and-ends-with-the-pod-s-work",
        ),
        pytest.param(
            pod("a", "b", restartPolicy="Never"),
            HERE,
            {"containers": {"a": up("a"), "b": up("b")}},
            ["if a ended now, it would stay down", "if b ended now, it would stay down"],
            id="never-and-another-runs-on",
        ),
        pytest.param(
            pod("a", init=["i"]),
            HERE,
            {"containers": {"i": up("i")}},
            [
                "if i succeeded now, next would come: StartContainer a 0",
                "if i failed now, it would start again at once (restart 1)",
            ],
            id="an-init-container-lets-the-next-start",
        ),
        pytest.param(
            pod(),
            HERE,
            {"containers": {"web": LOOPS}},
            ["if all goes as planned: StartContainer web 4", "if web then ends within ten minutes, it waits 80 s"],
            id="a-crash-loop",
        ),
        pytest.param(
            pod("a", init=["i"]),
            Around(busy=(RUN, PULL)),
            {**NEW, "images": ABSENT},
            ["if all goes as planned: StartContainer i 0"],
            id="a-start-as-far-as-the-first-init-container",
        ),
        pytest.param(
            pod(),
            Around(busy=(stopping(),)),
            {**UP, **GOING},
            [
                "if all goes as planned: StopPodSandbox, then RemovePodSandbox s0, then RemovePodDirectories",
                "then its workflow ends",
            ],
            id="a-pod-that-goes-step-by-step",
        ),
        pytest.param(
            pod(),
            Around(busy=(stopping(),)),
            {**UP, **GOING, "listed_again": True},
            [
                "if all goes as planned: StopPodSandbox, then RemovePodSandbox s0, then RemovePodDirectories",
                "then it begins anew, for its source lists it again",
            ],
            id="one-that-comes-back",
        ),
        pytest.param(
            pod(restartPolicy="Never"),
            HERE,
            {"containers": {"web": down(0)}, "lifecycle": Lifecycle.TERMINATED, "sandbox": GONE},
            [STAYS],
            id="a-finished-one-stays",
        ),
        pytest.param(pod(), Around(busy=(READ,)), {}, [], id="what-a-re-read-finds-nobody-knows"),
    ],
)
def test_what_would_come_next(source: dict[str, Any], around: Around, known: dict[str, Any], texts: list[str]) -> None:
    """The core's own decisions about what has not happened yet."""
    assert said(SentenceKind.NEXT, source, around, known) == texts


def test_what_is_under_way_is_named_by_its_activity() -> None:
    """So that the reader finds its tries in Temporal."""
    told = explanation(situation(around=Around(busy=(PULL, RUN)), **NEW, images=ABSENT), words).sentences
    under_way = [(one.text, one.about) for one in told if one.kind is SentenceKind.UNDER_WAY]
    assert under_way == [(words(PULL), f"image/{KEY_OF_IMAGE}"), (words(RUN), "sandbox")]


def test_explaining_changes_nothing() -> None:
    """What is foretold is not written down."""
    here = situation(pod("a", init=["i"]), containers={"i": up("i", attempt=2, **FORTY)})
    before = repr(here.observed)
    explanation(here, words)
    assert repr(here.observed) == before


def test_a_forecast_is_what_is_then_done() -> None:
    """The first step that is foretold is the one that the plan begins."""
    here = situation(pod("a", "b"), containers={"a": up("a")})
    (begun,) = pod_actions(here).begin
    assert isinstance(begun, StartContainer)
    assert f"if all goes as planned: {words(begun)}" in [
        one.text for one in explanation(here, words).sentences if one.kind is SentenceKind.NEXT
    ]


def test_a_pod_of_many_containers_is_explained_at_once() -> None:
    """Only so many steps are told."""
    names = [f"c{number}" for number in range(20)]
    source = pod(containers=[container(name) for name in names])
    texts = said(SentenceKind.NEXT, source, HERE, {})
    assert texts[0].endswith(", and so on")
    assert texts[0].count("StartContainer") == 8


@pytest.mark.parametrize(
    ("gates", "remedy"),
    [
        pytest.param(
            ["gate1", "gate2"], "`tempolet condition default/web gate2=True` opens one", id="the-first-shut-one"
        ),
        pytest.param(["Ready"], "", id="nobody-sets-the-node-s-own"),
    ],
)
def test_who_opens_a_gate(gates: list[str], remedy: str) -> None:
    """The command that does, for a gate that an operator may open."""
    source = pod(readinessGates=[{"conditionType": gate} for gate in gates])
    given = {"gate1": GivenCondition("True", at(0))}
    told = explanation(situation(source, HERE, **UP, given_conditions=given), words)
    assert [one.remedy for one in told.sentences if one.kind is SentenceKind.HELD] == [remedy]


def test_a_deadline_is_a_wait() -> None:
    """Which no operator can skip."""
    (wait,) = [
        one
        for one in explanation(situation(pod(activeDeadlineSeconds=100), containers={"web": up()}), words).sentences
        if one.kind is SentenceKind.WAITS
    ]
    assert (wait.text, wait.at, wait.remedy) == ("activeDeadlineSeconds: the pod is stopped", at(40), "")


def test_what_comes_after_a_deadline_is_foretold_too() -> None:
    """Time goes on to it, and the pod goes."""
    texts = said(SentenceKind.NEXT, pod(activeDeadlineSeconds=100), HERE, UP)
    assert texts[0] == "if all goes as planned: StopContainer web, then StopPodSandbox"
