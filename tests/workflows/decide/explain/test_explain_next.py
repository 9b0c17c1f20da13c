"""Does an explanation predict correctly what comes next?"""

from typing import Any

import pytest

from proto.temporal.activities.requests import StartContainer
from proto.temporal.operator import SentenceKind
from proto.temporal.pod import Lifecycle
from tests.workflows.decide.explain.explained import ABSENT, FORTY, GONE, LOOPS, NEW, PULL, RUN, UP, said
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    READ,
    Context,
    container,
    deletion,
    describe,
    down,
    pod,
    situation,
    stopping,
    up,
)
from workflows.decide.explain.explain import explanation
from workflows.decide.steps.pod_actions import pod_actions

GOING = {"deletion": deletion(), "lifecycle": Lifecycle.TERMINATING}
STAYS = "it stays like that until its source no longer lists it; then its containers, sandbox, directories and logs are removed"


@pytest.mark.parametrize(
    ("source", "context", "known", "texts"),
    [
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            UP,
            ["if web ended now, it would be restarted at once (restart 1)"],
            id="always-comes-back",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {"containers": {"web": up(attempt=3, **FORTY)}},
            ["if web ended now, it would be restarted after 40 s (restart 4)"],
            id="after-the-back-off-it-has-earned",
        ),
        pytest.param(
            pod(restartPolicy="OnFailure"),
            DEFAULT_CONTEXT,
            UP,
            [
                "if web succeeded now, the pod would be finished: Succeeded",
                "if web failed now, it would be restarted at once (restart 1)",
            ],
            id="on-failure-asks-how",
        ),
        pytest.param(
            pod(init=["+s"], restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"s": up("s"), "web": up()}},
            [
                "if s ended now, it would be restarted at once (restart 1)",
                "if web succeeded now, the pod would be finished: Succeeded",
                "if web failed now, the pod would be finished: Failed",
            ],
            id="a-sidecar-comes-back-and-ends-with-the-pod-s-work",
        ),
        pytest.param(
            pod("a", "b", restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"a": up("a"), "b": up("b")}},
            ["if a ended now, it would not be restarted", "if b ended now, it would not be restarted"],
            id="never-and-another-runs-on",
        ),
        pytest.param(
            pod("a", init=["i"]),
            DEFAULT_CONTEXT,
            {"containers": {"i": up("i")}},
            [
                "if i succeeded now, next would come: StartContainer a 0",
                "if i failed now, it would be restarted at once (restart 1)",
            ],
            id="an-init-container-lets-the-next-start",
        ),
        pytest.param(
            pod(),
            DEFAULT_CONTEXT,
            {"containers": {"web": LOOPS}},
            ["if all goes as planned: StartContainer web 4", "if web then ends within ten minutes, it waits 80 s"],
            id="a-crash-loop",
        ),
        pytest.param(
            pod("a", init=["i"]),
            Context(busy=(RUN, PULL)),
            {**NEW, "images": ABSENT},
            ["if all goes as planned: StartContainer i 0"],
            id="a-start-as-far-as-the-first-init-container",
        ),
        pytest.param(
            pod(),
            Context(busy=(stopping(),)),
            {**UP, **GOING},
            [
                "if all goes as planned: StopPodSandbox, then RemovePodSandbox s0, then RemovePodDirectories",
                "then its workflow ends",
            ],
            id="a-pod-that-goes-step-by-step",
        ),
        pytest.param(
            pod(),
            Context(busy=(stopping(),)),
            {**UP, **GOING, "listed_again": True},
            [
                "if all goes as planned: StopPodSandbox, then RemovePodSandbox s0, then RemovePodDirectories",
                "then it starts again, because its source lists it again",
            ],
            id="one-that-comes-back",
        ),
        pytest.param(
            pod(restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"web": down(0)}, "lifecycle": Lifecycle.TERMINATED, "sandbox": GONE},
            [STAYS],
            id="a-finished-one-stays",
        ),
        pytest.param(pod(), Context(busy=(READ,)), {}, [], id="what-a-re-read-finds-nobody-knows"),
    ],
)
def test_what_would_come_next(
    source: dict[str, Any], context: Context, known: dict[str, Any], texts: list[str]
) -> None:
    """By the core's own decisions about the predicted results."""
    assert said(SentenceKind.NEXT, source, context, known) == texts


def test_a_forecast_is_what_is_then_done() -> None:
    """The first predicted step is the one that the plan starts."""
    here = situation(pod("a", "b"), containers={"a": up("a")})
    (begun,) = pod_actions(here).begin
    assert isinstance(begun, StartContainer)
    assert f"if all goes as planned: {describe(begun)}" in [
        one.text for one in explanation(here, describe).sentences if one.kind is SentenceKind.NEXT
    ]


def test_a_pod_of_many_containers_is_explained_at_once() -> None:
    """The number of predicted steps is limited."""
    names = [f"c{number}" for number in range(20)]
    source = pod(containers=[container(name) for name in names])
    texts = said(SentenceKind.NEXT, source, DEFAULT_CONTEXT, {})
    assert texts[0].endswith(", and so on")
    assert texts[0].count("StartContainer") == 8


def test_what_comes_after_a_deadline_is_foretold_too() -> None:
    """The forecast continues to the deadline and the pod's removal."""
    texts = said(SentenceKind.NEXT, pod(activeDeadlineSeconds=100), DEFAULT_CONTEXT, UP)
    assert texts[0] == "if all goes as planned: StopContainer web, then StopPodSandbox"
