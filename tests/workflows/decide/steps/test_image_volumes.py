"""Are the images of volumes pulled and reported like those of containers, and only for containers that mount them?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import ImagesPresent, ReadImages, StartContainer
from proto.temporal.images import ImageFacts
from proto.temporal.mounted import MountedVolume, VolumesFacts
from proto.temporal.operator import SkipBackoff
from proto.temporal.pod import NodeSettings, PodJson
from tests.workflows.decide.situations import (
    IMAGE,
    KEY,
    Context,
    at,
    container,
    describe,
    describe_all,
    down,
    pod,
    seen,
    situation,
    up,
)
from workflows.decide.containers.definitions import redefine
from workflows.decide.containers.instances import instance_seen
from workflows.decide.explain.explain import explanation
from workflows.decide.keys import image_key
from workflows.decide.operator.skips import skip, waiting_backoffs
from workflows.decide.record.fold import fold
from workflows.decide.situation import Situation
from workflows.decide.status.container_status import waiting
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.volumes.mounts import mount_statuses

TOOL = "tool:1"
OWN, SHOWN = image_key(IMAGE, "IfNotPresent"), image_key(TOOL, "IfNotPresent")
HERE = ImageFacts("sha256:1", pulled=True)
THERE = ImageFacts("sha256:tool", pulled=True)
FAILED = ImageFacts(reason="ErrImagePull", message="not found", backoff=timedelta(seconds=20), failed_at=at(-5))
MOUNTED = VolumesFacts(0, (MountedVolume("tool", read_only=True),))
MOUNT = {"name": "tool", "mountPath": "/tool"}


def showing(policy: str = "IfNotPresent", **spec: Any) -> PodJson:
    """Build a pod whose container web mounts an image, and whose container other does not."""
    return pod(
        containers=[container("web", volumeMounts=[MOUNT]), container("other")],
        volumes=[{"name": "tool", "image": {"reference": TOOL, "pullPolicy": policy}}],
        **spec,
    )


def with_images(own: ImageFacts, shown: ImageFacts | None, **known: Any) -> Situation:
    """Build the facts of both images."""
    images = {OWN: own} | ({SHOWN: shown} if shown else {})
    return situation(showing(), images=images, volumes=MOUNTED, **known)


UP: dict[str, Any] = {"containers": {"other": up("other")}}


@pytest.mark.parametrize(
    ("here", "begun"),
    [
        pytest.param(with_images(HERE, None, **UP), ["ReadImages"], id="looked-for-first"),
        pytest.param(
            situation(showing(), images={}, volumes=MOUNTED, **UP), ["ReadImages"], id="with-the-container-s-own"
        ),
        pytest.param(with_images(HERE, ImageFacts(), **UP), [f"PullImage {TOOL} IfNotPresent"], id="then-pulled"),
        pytest.param(with_images(HERE, THERE, **UP), ["StartContainer web 0"], id="then-its-container-starts"),
        pytest.param(
            with_images(HERE, ImageFacts()),
            [f"PullImage {TOOL} IfNotPresent", "StartContainer other 0"],
            id="who-does-not-mount-it-does-not-wait",
        ),
        pytest.param(
            with_images(HERE, None, containers={"web": up(), "other": up("other")}), [], id="nobody-asks-while-all-run"
        ),
        pytest.param(
            situation(showing("Always"), volumes=MOUNTED, **UP), [f"PullImage {TOOL} Always"], id="always-pulls"
        ),
    ],
)
def test_pulling(here: Situation, begun: list[str]) -> None:
    """As in decide/images for a container's own image."""
    assert describe_all(pod_actions(here).begin) == begun


def test_a_start_is_told_which_image_there_is() -> None:
    """By name and reference, with which the runtime mounts it."""
    [start] = pod_actions(with_images(HERE, THERE, **UP)).begin
    assert isinstance(start, StartContainer)
    assert start.volumes == (MountedVolume("tool", read_only=True, image=TOOL, image_ref="sha256:tool"),)


def test_images_that_are_there_need_no_pull() -> None:
    """One ReadImages covers volumes, too."""
    here = situation(showing(), images={}, volumes=MOUNTED)
    fold(here, ReadImages(KEY, (IMAGE, TOOL)), ImagesPresent({IMAGE: "sha256:1", TOOL: "sha256:tool"}))
    assert here.observed.images == {OWN: replace(HERE), SHOWN: THERE}


def test_with_always_a_restart_pulls_again() -> None:
    """The exit of the container that mounts it causes a new pull; the exit of another does not."""
    images = {OWN: HERE, image_key(TOOL, "Always"): replace(THERE)}
    here = situation(showing("Always"), images=images, volumes=MOUNTED, containers={"web": up(), "other": up("other")})
    instance_seen(here, here.facts("other"), seen("other", code=1))
    assert here.image_of((TOOL, "Always")).pulled
    instance_seen(here, here.facts("web"), seen("web", code=1))
    assert not here.image_of((TOOL, "Always")).pulled


def test_a_failed_pull_is_the_status_of_who_mounts_it() -> None:
    """With the kubelet's reasons; the other container is not affected."""
    here = with_images(HERE, FAILED, **UP)
    web = here.containers[0]
    first = waiting(here, web, here.facts("web"))
    assert (first.reason, first.message) == (
        "ImagePullBackOff",
        f'Back-off pulling image "{TOOL}": ErrImagePull: not found',
    )
    assert describe_all([*pod_actions(here).begin, *filter(None, [pod_actions(here).wake])]) == ["wake 15"]


def test_the_failure_of_a_volume_s_image_is_told_before_the_own() -> None:
    """The kubelet pulls those of volumes first (kuberuntime_manager.go toKubeContainerImageVolumes)."""
    here = with_images(replace(FAILED, message="own"), FAILED, **UP)
    assert "not found" in (waiting(here, here.containers[0], here.facts("web")).message or "")


def test_explain_names_the_image() -> None:
    """And what it waits for, and how to skip that."""
    said = [one.text for one in explanation(with_images(HERE, ImageFacts(), **UP), describe).sentences]
    assert any(f"its image {TOOL}" in one for one in said)
    waits = explanation(with_images(HERE, FAILED, **UP), describe).sentences
    assert any(one.because == "it failed with ErrImagePull: not found" for one in waits)


def test_its_backoff_can_be_skipped() -> None:
    """By the name of the waiting container."""
    here = with_images(HERE, replace(FAILED), **UP)
    [found] = waiting_backoffs(here)
    assert (found.container, found.image, found.reason) == ("web", TOOL, "ErrImagePull")
    skip(here, SkipBackoff("web"))
    assert describe_all(pod_actions(here).begin) == [f"PullImage {TOOL} IfNotPresent"]


def test_an_edit_of_a_container_s_image_keeps_it() -> None:
    """It is pulled as before."""
    here = with_images(HERE, THERE, containers={"web": up(), "other": up("other")})
    edited = showing()
    edited["spec"]["containers"][1]["image"] = "busybox:2"
    redefine(here, edited)
    assert here.image_of((TOOL, "IfNotPresent")) == THERE


def test_a_pod_that_is_over_asks_for_nothing() -> None:
    """Not even for an image that was never pulled."""
    here = situation(showing(restartPolicy="Never"), images={}, containers={"web": down(0), "other": down(0, "other")})
    assert describe_all(pod_actions(here).begin) == []


@pytest.mark.parametrize(
    ("gate", "told"), [pytest.param(True, "sha256:tool", id="on"), pytest.param(False, None, id="off")]
)
def test_the_status_says_which_image_is_shown(gate: bool, told: str | None) -> None:
    """With the feature gate ImageVolumeWithDigest (kubelet_pods.go convertToAPIContainerStatuses)."""
    context = Context(settings=NodeSettings(image_volume_with_digest=gate))
    here = situation(showing(), context, images={OWN: HERE, SHOWN: THERE}, volumes=MOUNTED, containers={"web": up()})
    [mount] = mount_statuses(here, here.containers[0]) or []
    shown = mount.volume_status.image if mount.volume_status else None
    assert (shown.image_ref if shown else None) == told
