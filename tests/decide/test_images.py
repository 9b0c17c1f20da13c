"""Which images are asked for now, and when is a failed one asked for again?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.pod import ImageFacts
from proto.temporal.requests import PullImage
from tests.decide.situations import IMAGE, KEY, Around, at, container, done, down, pod, situation, told, up
from workflows.decide.actions import image_key
from workflows.decide.fold import fold_failure
from workflows.decide.images import pull_images

HERE = image_key(IMAGE, "IfNotPresent")
PULL = f"PullImage {IMAGE} IfNotPresent"
FAILED = ImageFacts(reason="ErrImagePull", message="not found", backoff=timedelta(seconds=20), failed_at=at(-5))
TEN = timedelta(seconds=10)


@pytest.mark.parametrize(
    ("source", "known", "asked"),
    [
        pytest.param(pod(), {"images": {}}, [PULL], id="an-image-nobody-asked-for"),
        pytest.param(pod(), {"images": {}, "sandbox": None}, [PULL], id="side-by-side-with-the-sandbox"),
        pytest.param(pod(), {}, [], id="an-image-that-is-there"),
        pytest.param(pod("a", "b"), {"images": {}}, [PULL], id="one-image-of-two-containers-once"),
        pytest.param(
            pod(containers=[container("a"), container("b", imagePullPolicy="Always")]),
            {"images": {}},
            [PULL, f"PullImage {IMAGE} Always"],
            id="each-policy-apart",
        ),
        pytest.param(pod(), {"images": {HERE: FAILED}}, ["wake 15"], id="a-failed-pull-waits"),
        pytest.param(
            pod(), {"images": {HERE: ImageFacts(backoff=TEN, failed_at=at(-10))}}, [PULL], id="until-its-delay-is-over"
        ),
        pytest.param(pod(), {"images": {}, "containers": {"web": up()}}, [], id="not-for-a-running-container"),
        pytest.param(
            pod(),
            {"images": {}, "containers": {"web": down(1, backoff=TEN, backoff_at=at(-1))}},
            [],
            id="not-before-the-crash-loop-s-backoff-is-over",
        ),
        pytest.param(
            pod(restartPolicy="Never"), {"images": {}, "containers": {"web": down(0)}}, [], id="not-for-what-is-done"
        ),
        pytest.param(
            pod(init=["a"], restartPolicy="Never"),
            {"images": {}, "containers": {"a": down(1, "a")}},
            [],
            id="not-after-a-failed-init-container",
        ),
        pytest.param(
            pod(init=["a"]),
            {"images": {}, "containers": {"a": up("a")}},
            [PULL],
            id="before-the-init-container-is-done",
        ),
        pytest.param(
            pod(init=["a"]), {"images": {}, "containers": {"a": done("a")}}, [PULL], id="an-init-container-that-is-done"
        ),
    ],
)
def test_pull_images(source: dict[str, Any], known: dict[str, Any], asked: list[str]) -> None:
    """What is asked for."""
    assert told(list(pull_images(situation(source, **known)))) == asked


def test_an_image_under_way_is_not_asked_for_twice() -> None:
    """One pull of a key at a time."""
    around = Around(busy=(PullImage(KEY, IMAGE, "IfNotPresent"),))
    assert not list(pull_images(situation(around=around, images={})))


@pytest.mark.parametrize(
    ("reason", "delays"),
    [
        pytest.param("ErrImagePull", [10, 20, 40, 80, 160, 300, 300], id="a-pull-that-fails-backs-off"),
        pytest.param("ErrImageNeverPull", [10, 10, 10], id="an-image-that-must-be-there-is-looked-for-at-an-even-pace"),
        pytest.param("ImageInspectError", [10, 10, 10], id="so-is-one-that-can-t-be-inspected"),
    ],
)
def test_delays(reason: str, delays: list[float]) -> None:
    """How long each failure waits."""
    now = situation(images={})
    seen = []
    for _ in delays:
        fold_failure(now, PullImage(KEY, IMAGE, "IfNotPresent"), reason, "no")
        backoff = now.observed.images[HERE].backoff
        assert backoff is not None
        seen.append(backoff.total_seconds())
    assert seen == delays
