"""When are a pod's volumes mounted and unmounted, what waits for them, and what is reported?"""

from dataclasses import replace
from typing import Any

import pytest

from proto.temporal.activities.requests import StartContainer
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.mounted import MountedVolume, VolumesFacts
from proto.temporal.operator import Sentence
from proto.temporal.pod import Lifecycle, PodJson
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    IMAGE,
    KEY,
    Context,
    container,
    deletion,
    describe,
    describe_all,
    down,
    pod,
    sandbox,
    situation,
    up,
)
from workflows.decide.explain.explain import explanation
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.situation import Situation
from workflows.decide.slices import volumes_slice
from workflows.decide.status.status import pod_status, pod_summary
from workflows.decide.steps.containers import start
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.volumes.mounts import mount_statuses, mounted_for


def sentences(here: Situation) -> tuple[Sentence, ...]:
    """Explain a pod."""
    return explanation(here, describe).sentences


DATA = {"name": "data", "emptyDir": {}}
MOUNT = {"name": "data", "mountPath": "/data"}
MOUNTED = VolumesFacts(0, (MountedVolume("data", "/pods/uid-1/data"),))
FRESH: dict[str, Any] = {"sandbox": None, "directories": False}


def with_volume(**spec: Any) -> PodJson:
    """Build a pod whose container mounts a volume."""
    source = pod(volumes=[DATA], **spec)
    source["spec"]["containers"][0]["volumeMounts"] = [MOUNT]
    return source


MOUNTING = MountVolumes(KEY, (DATA,), volumes_slice(with_volume()), 0)


@pytest.mark.parametrize(
    ("source", "known", "begun"),
    [
        pytest.param(
            with_volume(), FRESH, ["MountVolumes", "RunPodSandbox 0"], id="a-new-pod-mounts-beside-its-sandbox"
        ),
        pytest.param(pod(), FRESH, ["RunPodSandbox 0"], id="a-pod-without-volumes-mounts-nothing"),
        pytest.param(with_volume(), {}, ["MountVolumes"], id="no-container-starts-before-its-volumes-are-there"),
        pytest.param(with_volume(), {"volumes": MOUNTED}, ["StartContainer web 0"], id="mounted-it-starts"),
        pytest.param(
            with_volume(),
            {"volumes": MOUNTED, "sandbox": sandbox(1), "containers": {"web": down(1, ended=-900)}},
            ["MountVolumes"],
            id="a-new-sandbox-mounts-again",
        ),
        pytest.param(
            with_volume(), {"containers": {"web": up()}}, ["MountVolumes"], id="with-a-lost-history-they-are-looked-for"
        ),
        pytest.param(with_volume(), {**FRESH, "waiting_for": "uid-0"}, ["AwaitPredecessor"], id="after-a-predecessor"),
        pytest.param(
            with_volume(restartPolicy="Never"),
            {"containers": {"web": down(0)}},
            [],
            id="a-pod-that-has-finished-mounts-nothing",
        ),
    ],
)
def test_mounting(source: PodJson, known: dict[str, Any], begun: list[str]) -> None:
    """All of them in one action, as soon as the pod starts."""
    assert describe_all(pod_actions(situation(source, **known)).begin) == begun


GONE: dict[str, Any] = {"sandbox": sandbox(ready=False, stopped=True), "volumes": MOUNTED}
TERMINATED: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATED, **GONE}


@pytest.mark.parametrize(
    ("source", "known", "begun"),
    [
        pytest.param(
            with_volume(),
            {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion(), "volumes": MOUNTED},
            ["StopPodSandbox"],
            id="after-the-sandbox",
        ),
        pytest.param(
            with_volume(),
            {**TERMINATED, "deletion": deletion(), "sandbox": None},
            ["UnmountVolumes"],
            id="then-volumes",
        ),
        pytest.param(with_volume(), TERMINATED, ["UnmountVolumes"], id="also-of-a-pod-that-has-finished-and-is-listed"),
        pytest.param(with_volume(), {**TERMINATED, "volumes_undone": True}, [], id="once"),
        pytest.param(
            with_volume(),
            {**TERMINATED, "deletion": deletion(), "sandbox": None, "volumes": None},
            ["UnmountVolumes"],
            id="whether-or-not-we-know-of-any",
        ),
        pytest.param(
            with_volume(),
            {**TERMINATED, "deletion": deletion(), "sandbox": None, "volumes_undone": True},
            ["RemovePodDirectories"],
            id="directories-after-them",
        ),
        pytest.param(
            pod(), {**TERMINATED, "deletion": deletion(), "sandbox": None}, ["RemovePodDirectories"], id="none-to-undo"
        ),
    ],
)
def test_unmounting(source: PodJson, known: dict[str, Any], begun: list[str]) -> None:
    """Once nothing of the pod runs, and before anything is removed."""
    assert describe_all(pod_actions(situation(source, **known)).begin) == begun


def mounted_pod(source: PodJson | None = None) -> Situation:
    """Build a pod whose volumes have just been mounted."""
    here = situation(source or with_volume(), DEFAULT_CONTEXT)
    fold(here, MOUNTING, MountedVolumes(MOUNTED.volumes, objects={"configmaps/a": "3"}))
    return here


def test_what_was_mounted_is_known_and_told_to_the_containers_that_mount_it() -> None:
    """A container gets only its own volumes."""
    source = with_volume()
    source["spec"]["containers"].append({**source["spec"]["containers"][0], "name": "other", "volumeMounts": []})
    here = mounted_pod(source)
    assert here.observed.volumes == VolumesFacts(0, MOUNTED.volumes, {"configmaps/a": "3"})
    web, other = here.containers
    assert start(here, web).volumes == MOUNTED.volumes
    assert start(here, other).volumes == ()


def test_a_mount_that_fails_is_shown_and_tried_again() -> None:
    """The pod's reason is FailedMount; nothing else waits."""
    here = situation(with_volume())
    fold_failure(here, MOUNTING, "FailedMount", "no such directory")
    line = pod_summary(here, pod_status(here))
    assert (line.reason, line.message) == ("FailedMount", "no such directory")
    plan = pod_actions(here)
    assert plan.begin == ()
    assert plan.wake is not None
    assert plan.wake.about == "volumes"
    later = replace(here, now=plan.wake.at)
    assert pod_actions(later).begin == (MOUNTING,)


def test_an_unmount_that_fails_stays_visible_and_is_tried_again() -> None:
    """Nothing is removed meanwhile."""
    here = situation(with_volume(), **{**TERMINATED, "deletion": deletion(), "sandbox": None})
    [action] = pod_actions(here).begin
    assert isinstance(action, UnmountVolumes)
    fold_failure(here, action, "FailedUnmount", "device or resource busy")
    here.observed.runtime_stale = False
    plan = pod_actions(here)
    assert plan.begin == ()
    assert plan.wake is not None
    assert pod_actions(replace(here, now=plan.wake.at)).begin == (action,)
    assert any("FailedUnmount: device or resource busy" in one.because for one in sentences(here))


def test_explain_names_what_a_container_waits_for() -> None:
    """The volumes that are not mounted."""
    here = situation(with_volume(), Context(busy=(MOUNTING,)))
    assert "web waits for the pod's volumes: data" in [one.text for one in sentences(here)]


def test_whether_the_runtime_can_is_asked_when_somebody_first_wants_it() -> None:
    """An ephemeral container may be the first with a recursively read-only mount."""
    source = with_volume()
    looks = {"name": "looks", "image": IMAGE, "imagePullPolicy": "IfNotPresent"}
    mount = MOUNT | {"readOnly": True, "recursiveReadOnly": "Enabled"}
    source["spec"]["ephemeralContainers"] = [looks | {"volumeMounts": [mount]}]
    here = situation(source, volumes=MOUNTED, containers={"web": up()})
    [action] = [one for one in pod_actions(here).begin if isinstance(one, MountVolumes)]
    assert action.asks_recursive_read_only
    able = replace(MOUNTED.volumes[0], recursive_read_only=True)
    fold(here, action, MountedVolumes((able,)))
    [begun] = pod_actions(here).begin
    assert isinstance(begun, StartContainer)
    assert begun.volumes == (able,)


@pytest.mark.parametrize(
    ("mount", "supported", "shown"),
    [
        pytest.param({}, True, (None, None), id="writable"),
        pytest.param({"readOnly": True}, True, (True, "Disabled"), id="read-only"),
        pytest.param({"readOnly": True, "recursiveReadOnly": "IfPossible"}, True, (True, "Enabled"), id="if-possible"),
        pytest.param(
            {"readOnly": True, "recursiveReadOnly": "IfPossible"}, False, (True, "Disabled"), id="not-possible"
        ),
        pytest.param({"readOnly": True, "recursiveReadOnly": "Enabled"}, True, (True, "Enabled"), id="enabled"),
    ],
)
def test_status_of_mounts(mount: dict[str, Any], supported: bool, shown: tuple[Any, Any]) -> None:
    """The result of a recursively read-only mount (TestConvertToAPIContainerStatuses)."""
    source = with_volume()
    source["spec"]["containers"][0]["volumeMounts"] = [MOUNT | mount]
    known = VolumesFacts(0, (MountedVolume("data", "/x", recursive_read_only=supported),))
    here = situation(source, volumes=known)
    [status] = mount_statuses(here, here.containers[0]) or []
    assert (status.name, status.mount_path) == ("data", "/data")
    assert (status.read_only, status.recursive_read_only) == shown


def test_slice_is_narrow() -> None:
    """The pod's identity and its fsGroup: no command, no env, no label."""
    security = {"fsGroup": 7, "runAsUser": 5, "fsGroupChangePolicy": "Always"}
    source = with_volume(securityContext=security, runtimeClassName="slow")
    assert volumes_slice(source) == {
        "metadata": source["metadata"],
        "spec": {"securityContext": {"fsGroup": 7, "fsGroupChangePolicy": "Always"}, "runtimeClassName": "slow"},
    }


def test_slice_of_a_volume_in_memory() -> None:
    """Its size depends on the pod's memory limit."""
    source = pod(volumes=[{"name": "data", "emptyDir": {"medium": "Memory"}}])
    source["spec"]["containers"][0] |= {"resources": {"limits": {"memory": "1Mi"}}, "env": [{"name": "a"}]}
    assert volumes_slice(source)["spec"] == {
        "containers": [{"name": "web", "resources": {"limits": {"memory": "1Mi"}}}],
    }


@pytest.mark.parametrize(
    ("spec", "volume", "expected"),
    [
        pytest.param({"hostUsers": False}, {"emptyDir": {}}, True, id="an-emptyDir-in-a-user-namespace"),
        pytest.param({"hostUsers": True}, {"emptyDir": {}}, False, id="with-the-nodes-users"),
        pytest.param({}, {"emptyDir": {}}, False, id="which-is-the-default"),
        pytest.param({"hostUsers": False}, {"hostPath": {"path": "/"}}, False, id="no-emptyDir"),
    ],
)
def test_slice_for_a_project_quota(spec: PodJson, volume: PodJson, expected: bool) -> None:
    """Whether the pod has a user namespace, and its limits."""
    source = pod(volumes=[{"name": "data", **volume}], **spec)
    limits = {"limits": {"ephemeral-storage": "1Mi"}}
    source["spec"]["containers"][0] |= {"resources": limits, "env": [{"name": "a"}]}
    cut = {"hostUsers": False, "containers": [{"name": "web", "resources": limits}]}
    assert volumes_slice(source)["spec"] == (cut if expected else {})


def test_a_container_is_told_of_the_groups_of_all_volumes() -> None:
    """Also of those that it does not mount; of the other fields only its own volumes'."""
    known = VolumesFacts(0, (MountedVolume("mine"), MountedVolume("other"), MountedVolume("grouped", group_id=5)))
    mounting = container("web", volumeMounts=[{"name": "mine", "mountPath": "/mine"}])
    here = situation(pod(containers=[mounting]), volumes=known)
    assert [one.name for one in mounted_for(here, here.containers[0])] == ["mine", "grouped"]
