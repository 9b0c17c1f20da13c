"""Does an explanation say what state a pod is in, what is in progress, and what it waits for?"""

from typing import Any

import pytest

from proto.temporal.operator import SentenceKind
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Eviction
from tests.workflows.decide.explain.explained import (
    ABSENT,
    FORTY,
    GONE,
    KEY_OF_IMAGE,
    LOOPS,
    NEW,
    NOT_FOUND,
    NOT_READY,
    PULL,
    RUN,
    said,
)
from tests.workflows.decide.situations import DEFAULT_CONTEXT, Context, at, deletion, describe, down, pod, situation, up
from workflows.decide.explain.explain import explanation

TOO_LONG = Eviction(at(-5), "DeadlineExceeded", "too long")
CHOSEN = Eviction(at(-5), "Evicted", "low on memory. ", disrupts=True, why="it uses most")


@pytest.mark.parametrize(
    ("source", "context", "known", "text"),
    [
        pytest.param(
            pod(), DEFAULT_CONTEXT, {"containers": {"web": up()}}, "Running and ready, web runs", id="running"
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {"containers": {"web": LOOPS}},
            "Running and not ready, nothing of it runs, CrashLoopBackOff",
            id="a-crash-loop",
        ),
        pytest.param(
            pod("a", "b"),
            DEFAULT_CONTEXT,
            {"containers": {"a": up("a"), "b": up("b")}},
            "Running and ready, a, b run",
            id="two-run",
        ),
        pytest.param(
            pod(), DEFAULT_CONTEXT, NEW, "Pending and not ready, nothing of it runs, ContainerCreating", id="on-its-way"
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {"containers": {"web": up()}, "deletion": deletion(grace=5), "lifecycle": Lifecycle.TERMINATING},
            "it is terminating, web runs: ManifestRemoved: web.yaml is gone (grace 5 s)",
            id="going",
        ),
        pytest.param(
            pod(restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"web": down(0)}, "lifecycle": Lifecycle.TERMINATING},
            "Succeeded: it has finished, and it is being stopped",
            id="just-finished",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {"containers": {"web": up()}, "lifecycle": Lifecycle.TERMINATING, "eviction": TOO_LONG},
            "Running: DeadlineExceeded (too long), and it is being stopped",
            id="active-for-too-long",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {"containers": {"web": down(0)}, "lifecycle": Lifecycle.TERMINATED, "eviction": TOO_LONG, "sandbox": GONE},
            "Failed: DeadlineExceeded (too long), and its source still lists it",
            id="was-active-for-too-long",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {"containers": {"web": down(0)}, "lifecycle": Lifecycle.TERMINATED, "eviction": CHOSEN, "sandbox": GONE},
            "Failed: Evicted (low on memory.; this pod because it uses most), and its source still lists it",
            id="the-node-has-chosen-it",
        ),
        pytest.param(
            pod(restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"web": down(3)}, "lifecycle": Lifecycle.TERMINATED, "sandbox": GONE},
            "Failed: it has finished, and its source still lists it",
            id="finished",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
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
def test_where_it_stands(source: dict[str, Any], context: Context, known: dict[str, Any], text: str) -> None:
    """Exactly one sentence."""
    assert said(SentenceKind.STANDS, source, context, known) == [text]


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
    """What, until when, why, and what an operator can do."""
    told = explanation(situation(source, **known), describe).sentences
    waits = [one for one in told if one.kind is SentenceKind.WAITS]
    assert [(one.text, one.at, one.because, one.remedy) for one in waits] == [
        (text, at(seconds), because, remedy) for text, seconds, because, remedy in sentences
    ]


@pytest.mark.parametrize(
    ("source", "known", "over"),
    [
        pytest.param(pod(init=["i"]), {"containers": {"i": up("i")}}, (), id="it-runs"),
        pytest.param(pod(init=["i"]), {"containers": {"i": down(1)}}, (), id="it-will-run-again"),
        pytest.param(pod(init=["i", "j"]), {"containers": {"i": down(0), "j": up("j")}}, ("i",), id="one-of-two"),
        pytest.param(pod(init=["+s"]), {"containers": {"s": down(0)}}, (), id="a-sidecar"),
        pytest.param(pod(restartPolicy="Never"), {"containers": {"web": down(0)}}, (), id="no-init-container"),
    ],
)
def test_which_init_containers_are_over(source: dict[str, Any], known: dict[str, Any], over: tuple[str, ...]) -> None:
    """Those that do not run again in this sandbox."""
    assert explanation(situation(source, **known), describe).over == over


def test_what_is_under_way_is_named_by_its_activity() -> None:
    """So that the reader finds its attempts in Temporal."""
    told = explanation(situation(context=Context(busy=(PULL, RUN)), **NEW, images=ABSENT), describe).sentences
    under_way = [(one.text, one.about) for one in told if one.kind is SentenceKind.UNDER_WAY]
    assert under_way == [(describe(PULL), f"image/{KEY_OF_IMAGE}"), (describe(RUN), "sandbox")]


def test_explaining_changes_nothing() -> None:
    """The forecast does not change the observed state."""
    here = situation(pod("a", init=["i"]), containers={"i": up("i", attempt=2, **FORTY)})
    before = repr(here.observed)
    explanation(here, describe)
    assert repr(here.observed) == before


@pytest.mark.parametrize(
    ("known", "hastened"),
    [
        pytest.param({"deletion": deletion(), "lifecycle": Lifecycle.TERMINATING}, True, id="a-pod-that-is-deleted"),
        pytest.param({"eviction": TOO_LONG, "lifecycle": Lifecycle.TERMINATING}, True, id="one-that-its-node-ends"),
        pytest.param({}, False, id="a-pod-that-is-wanted"),
        pytest.param(
            {"deletion": deletion(grace=1), "lifecycle": Lifecycle.TERMINATING}, False, id="it-is-over-in-a-second"
        ),
        pytest.param(
            {"deletion": deletion(), "lifecycle": Lifecycle.TERMINATING, "containers": {"web": down(0)}},
            False,
            id="nothing-lives-any-more",
        ),
    ],
)
def test_who_hastens_a_stop(known: dict[str, Any], hastened: bool) -> None:
    """The command that shortens the stop, while there is something to shorten."""
    told = explanation(situation(**({"containers": {"web": up()}} | known)), describe)
    remedy = next(one.remedy for one in told.sentences if one.kind is SentenceKind.STANDS)
    assert remedy == ("`tempolet stop default/web --grace-period N` shortens its grace period" if hastened else "")


def test_a_deadline_is_a_wait() -> None:
    """No operator can skip it."""
    (wait,) = [
        one
        for one in explanation(situation(pod(activeDeadlineSeconds=100), containers={"web": up()}), describe).sentences
        if one.kind is SentenceKind.WAITS
    ]
    assert (wait.text, wait.at, wait.remedy) == ("activeDeadlineSeconds: the pod is stopped", at(40), "")
