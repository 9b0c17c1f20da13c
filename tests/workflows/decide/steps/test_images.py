"""Which images are pulled now, and when is a failed pull retried?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import ImagesPresent, PullImage, ReadImages
from proto.temporal.images import ImageFacts, PullSecrets
from tests.workflows.decide.situations import (
    IMAGE,
    KEY,
    Context,
    at,
    container,
    describe_all,
    done,
    down,
    pod,
    situation,
    up,
)
from workflows.decide.keys import image_key
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.steps.images import pull_images

HERE = image_key(IMAGE, "IfNotPresent")
ABSENT = {HERE: ImageFacts()}
"""It was looked for and is missing."""
PULL = f"PullImage {IMAGE} IfNotPresent"
FAILED = ImageFacts(reason="ErrImagePull", message="not found", backoff=timedelta(seconds=20), failed_at=at(-5))
TEN = timedelta(seconds=10)


@pytest.mark.parametrize(
    ("source", "known", "asked"),
    [
        pytest.param(pod(), {"images": ABSENT}, [PULL], id="an-image-that-is-not-there"),
        pytest.param(pod(), {"images": ABSENT, "sandbox": None}, [PULL], id="side-by-side-with-the-sandbox"),
        pytest.param(pod(), {}, [], id="an-image-that-is-there"),
        pytest.param(pod("a", "b"), {"images": ABSENT}, [PULL], id="one-image-of-two-containers-once"),
        pytest.param(
            pod(containers=[container("a"), container("b", imagePullPolicy="Always")]),
            {"images": ABSENT},
            [PULL, f"PullImage {IMAGE} Always"],
            id="each-policy-apart",
        ),
        pytest.param(pod(), {"images": {HERE: FAILED}}, ["wake 15"], id="a-failed-pull-waits"),
        pytest.param(
            pod(), {"images": {HERE: ImageFacts(backoff=TEN, failed_at=at(-10))}}, [PULL], id="until-its-delay-is-over"
        ),
        pytest.param(pod(), {"images": ABSENT, "containers": {"web": up()}}, [], id="not-for-a-running-container"),
        pytest.param(
            pod(),
            {"images": ABSENT, "containers": {"web": down(1, backoff=TEN, backoff_at=at(-1))}},
            [],
            id="not-before-the-crash-loop-s-backoff-is-over",
        ),
        pytest.param(
            pod(restartPolicy="Never"),
            {"images": ABSENT, "containers": {"web": down(0)}},
            [],
            id="not-for-what-is-done",
        ),
        pytest.param(
            pod(init=["a"], restartPolicy="Never"),
            {"images": ABSENT, "containers": {"a": down(1, "a")}},
            [],
            id="not-after-a-failed-init-container",
        ),
        pytest.param(
            pod(init=["a"]),
            {"images": ABSENT, "containers": {"a": up("a")}},
            [PULL],
            id="before-the-init-container-is-done",
        ),
        pytest.param(
            pod(init=["a"]),
            {"images": ABSENT, "containers": {"a": done("a")}},
            [PULL],
            id="an-init-container-that-is-done",
        ),
    ],
)
def test_pull_images(source: dict[str, Any], known: dict[str, Any], asked: list[str]) -> None:
    """What is pulled."""
    assert describe_all(list(pull_images(situation(source, **known)))) == asked


ALWAYS = f"PullImage {IMAGE} Always"
TWO = pod(containers=[container("a"), container("b", imagePullPolicy="Always")])


@pytest.mark.parametrize(
    ("source", "context", "asked"),
    [
        pytest.param(pod("a", "b"), Context(), ["ReadImages"], id="looked-for-before-it-is-pulled"),
        pytest.param(TWO, Context(), ["ReadImages", ALWAYS], id="with-policy-always-it-makes-no-difference"),
        pytest.param(pod(), Context(busy=(ReadImages(KEY, (IMAGE,)),)), [], id="nothing-while-it-is-looked-for"),
        pytest.param(pod("a", "b"), Context(behaviour=1), [PULL], id="behaviour-1-pulls-whatever-is-there"),
    ],
)
def test_an_image_nobody_looked_for(source: dict[str, Any], context: Context, asked: list[str]) -> None:
    """One ReadImages for all, then a pull of each missing one."""
    assert describe_all(list(pull_images(situation(source, context, images={})))) == asked


@pytest.mark.parametrize(
    ("there", "pulled"),
    [pytest.param({IMAGE: "sha256:1"}, True, id="there"), pytest.param({}, False, id="not-there")],
)
def test_what_a_look_tells(there: dict[str, str], pulled: bool) -> None:
    """A present image needs no pull; with Always it is pulled nevertheless."""
    here = situation(TWO, images={})
    fold(here, ReadImages(KEY, (IMAGE,)), ImagesPresent(there))
    assert here.observed.images == {HERE: ImageFacts(image_ref=there.get(IMAGE, ""), pulled=pulled)}
    assert describe_all(list(pull_images(here))) == ([ALWAYS] if pulled else [PULL, ALWAYS])


def test_a_look_that_fails_leaves_it_to_the_pull() -> None:
    """The pull reports the reason."""
    here = situation(images={})
    fold_failure(here, ReadImages(KEY, (IMAGE,)), "ImageInspectError", "no")
    assert describe_all(list(pull_images(here))) == [PULL]
    assert not here.observed.failures


@pytest.mark.parametrize(
    ("spec", "secrets"),
    [
        pytest.param({}, PullSecrets(), id="none"),
        pytest.param(
            {"imagePullSecrets": [{"name": "b"}, {"name": ""}, {}, {"name": "a"}]},
            PullSecrets(("b", "a")),
            id="in-the-pods-order-and-only-with-a-name",
        ),
        pytest.param({"serviceAccountName": "robot"}, PullSecrets((), "robot"), id="its-service-account-s"),
        pytest.param({"serviceAccount": "old"}, PullSecrets((), "old"), id="by-the-old-field"),
    ],
)
def test_whose_logins_a_pull_may_use(spec: dict[str, Any], secrets: PullSecrets) -> None:
    """Only the names of the secrets are passed on."""
    assert list(pull_images(situation(pod(**spec), images=ABSENT))) == [PullImage(KEY, IMAGE, "IfNotPresent", secrets)]


def test_an_image_under_way_is_not_asked_for_twice() -> None:
    """One pull of a key at a time."""
    context = Context(busy=(PullImage(KEY, IMAGE, "IfNotPresent"),))
    assert not list(pull_images(situation(context=context, images=ABSENT)))


@pytest.mark.parametrize(
    ("reason", "delays"),
    [
        pytest.param("ErrImagePull", [10, 20, 40, 80, 160, 300, 300], id="a-pull-that-fails-backs-off"),
        pytest.param("ErrImageNeverPull", [10, 10, 10], id="an-image-that-must-be-there-is-looked-for-at-an-even-pace"),
        pytest.param("ImageInspectError", [10, 10, 10], id="so-is-one-that-can-t-be-inspected"),
    ],
)
def test_delays(reason: str, delays: list[float]) -> None:
    """The delay after each failure."""
    now = situation(images=ABSENT)
    seen = []
    for _ in delays:
        fold_failure(now, PullImage(KEY, IMAGE, "IfNotPresent"), reason, "no")
        backoff = now.observed.images[HERE].backoff
        assert backoff is not None
        seen.append(backoff.total_seconds())
    assert seen == delays
