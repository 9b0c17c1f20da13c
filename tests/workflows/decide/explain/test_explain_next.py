"""Does an explanation foretell what would truly come next?"""

from typing import Any

import pytest

from proto.temporal.activities.requests import StartContainer
from proto.temporal.operator import SentenceKind
from proto.temporal.pod import Lifecycle
from tests.workflows.decide.explain.explained import ABSENT, FORTY, GONE, LOOPS, NEW, PULL, RUN, UP, said
from tests.workflows.decide.situations import (
    HERE,
    READ,
    Around,
    container,
    deletion,
    down,
    pod,
    situation,
    stopping,
    up,
    words,
)
from workflows.decide.explain.explain import explanation
from workflows.decide.steps.pod_actions import pod_actions

GOING = {"deletion": deletion(), "lifecycle": Lifecycle.TERMINATING}
STAYS = "it stays like that until its source no longer lists it; then its containers, sandbox, directories and logs are removed"


@pytest.mark.parametrize(
    ("source", "around", "known", "texts"),
    [
        pytest.param(
            pod(), HERE, UP, ["if web ended now, it would be restarted at once (restart 1)"], id="always-comes-back"
        ),
        pytest.param(
            pod(),
            HERE,
            {"containers": {"web": up(attempt=3, **FORTY)}},
            ["if web ended now, it would be restarted after 40 s (restart 4)"],
            id="after-the-back-off-it-has-earned",
        ),
        pytest.param(
            pod(restartPolicy="OnFailure"),
            HERE,
            UP,
            [
                "if web succeeded now, the pod would be finished: Succeeded",
                "if web failed now, it would be restarted at once (restart 1)",
            ],
            id="on-failure-asks-how",
        ),
        pytest.param(
            pod(init=["+s"], restartPolicy="Never"),
            HERE,
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
            HERE,
            {"containers": {"a": up("a"), "b": up("b")}},
            ["if a ended now, it would not be restarted", "if b ended now, it would not be restarted"],
            id="never-and-another-runs-on",
        ),
        pytest.param(
            pod("a", init=["i"]),
            HERE,
            {"containers": {"i": up("i")}},
            [
                "if i succeeded now, next would come: StartContainer a 0",
                "if i failed now, it would be restarted at once (restart 1)",
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
                "then it starts again, because its source lists it again",
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


def test_what_comes_after_a_deadline_is_foretold_too() -> None:
    """Time goes on to it, and the pod goes."""
    texts = said(SentenceKind.NEXT, pod(activeDeadlineSeconds=100), HERE, UP)
    assert texts[0] == "if all goes as planned: StopContainer web, then StopPodSandbox"
