"""Is there a sentence for each kind of activity and signal?"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.activities import claims, requests, volumes
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.hooks import Hook, HookEnded
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Ended, GivenCondition
from proto.temporal.resources import PendingResize, ResizeVerdict, RuntimeResources
from proto.temporal.signals import (
    DeletionRequested,
    ObjectsChanged,
    PodListed,
    RuntimeChanged,
    StatusGiven,
    StorageExceeded,
)
from tests.worker.history.story_recorder import LISTED, POD, RUN_SANDBOX, START, START_WEB, Recorder, seen
from worker.history.sentences.table import ACTIVITIES, SIGNALS
from workflows.decide.actions import ACTIONS

USR1 = requests.StartContainer(POD, "s1", 0, "sha256:1", {"name": "web", "lifecycle": {"stopSignal": "SIGUSR1"}}, {})


SIZE = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
RESIZE_WEB = UpdateContainerResources(POD, "web", "web-0", {"name": "web", "resources": SIZE}, {})


def annotated(annotations: dict[str, str]) -> PodJson:
    """Write the pod with these annotations."""
    return {**LISTED, "metadata": {**LISTED["metadata"], "annotations": annotations}}


def edited(**spec: Any) -> PodJson:
    """Change fields of the pod's spec."""
    return {**LISTED, "spec": {**LISTED["spec"], **spec}}


@pytest.fixture
def recorded() -> Recorder:
    """Record the start of a pod's history."""
    recorder = Recorder()
    recorder.begin()
    return recorder


@pytest.mark.parametrize(
    ("name", "request_", "answer", "texts"),
    [
        pytest.param(
            names.UPDATE_POD_SANDBOX_RESOURCES,
            UpdatePodSandboxResources(POD, "s1", {}, growing=True),
            None,
            ["the pod's cgroup raised before its containers are resized (1.00 s)"],
            id="cgroup-raised",
        ),
        pytest.param(
            names.UPDATE_POD_SANDBOX_RESOURCES,
            UpdatePodSandboxResources(POD, "s1", {}, growing=False),
            None,
            ["the pod's cgroup set to what its containers have now (1.00 s)"],
            id="cgroup-set",
        ),
        pytest.param(
            names.UPDATE_CONTAINER_RESOURCES,
            RESIZE_WEB,
            RuntimeResources(cpu_shares=102),
            ["container web resized in place: cpu 100m up to 200m, memory 64Mi (1.00 s)"],
            id="container-resized",
        ),
        pytest.param(
            names.UPDATE_CONTAINER_RESOURCES,
            RESIZE_WEB,
            RuntimeResources(gone=True),
            ["container web was gone before it could be resized"],
            id="container-gone-before-its-resize",
        ),
        pytest.param(
            names.START_CONTAINER, START_WEB, seen(attempt=2), ["container web started, restart 2 (1.00 s)"], id="again"
        ),
        pytest.param(
            names.START_CONTAINER,
            START_WEB,
            seen(exit_code=0, reason="Completed"),
            ["container web started (1.00 s)", "container web ended: exit 0 Completed"],
            id="ended-at-once",
        ),
        pytest.param(
            names.START_CONTAINER,
            USR1,
            seen(),
            [
                (
                    "container web started (1.00 s); the runtime ignores its stopSignal SIGUSR1:"
                    " its image's, or SIGTERM will stop it"
                )
            ],
            id="a-stop-signal-unheard",
        ),
        pytest.param(
            names.START_CONTAINER, USR1, seen(stop_signal="SIGUSR1"), ["container web started (1.00 s)"], id="one-heard"
        ),
        pytest.param(
            names.START_CONTAINER,
            replace(START_WEB, end_within=timedelta(seconds=2)),
            seen(
                exit_code=0,
                reason="Completed",
                started_at=START + timedelta(seconds=0.25),
                finished_at=START + timedelta(seconds=0.75),
            ),
            ["container web started (0.25 s)", "container web ended: exit 0 Completed after 0.50 s"],
            id="ended-while-its-start-waited-for-that",
        ),
        pytest.param(
            names.RUN_POD_SANDBOX,
            RUN_SANDBOX,
            requests.PodSandbox("s1", 1, adopted=True),
            ["sandbox attempt 1 found"],
            id="adopted",
        ),
        pytest.param(
            names.MOUNT_VOLUMES,
            volumes.MountVolumes(POD, ({"name": "a"}, {"name": "b"}, {"name": "c"}), {}),
            volumes.MountedVolumes(found=("c",)),
            ["volumes a, b mounted in 1.00 s", "volume c already mounted"],
            id="mounted-and-found",
        ),
        pytest.param(
            names.MOUNT_VOLUMES,
            volumes.MountVolumes(
                POD, ({"name": "a"}, {"name": "b"}), {}, refresh={"configmaps/web": "2", "secrets/x": "3"}
            ),
            volumes.MountedVolumes(found=("b",)),
            [
                "volume a refreshed in 1.00 s: configmap web, secret x",
                "volume b unchanged: configmap web, secret x",
            ],
            id="refreshed",
        ),
        pytest.param(
            names.MOUNT_VOLUMES,
            volumes.MountVolumes(POD, ({"name": "about"},), {}, refresh={}),
            volumes.MountedVolumes(),
            ["volume about refreshed in 1.00 s: the pod's own edit"],
            id="refreshed-by-an-edit",
        ),
        pytest.param(
            names.PREPARE_RESOURCES,
            claims.PrepareResources(POD, {}),
            claims.PreparedResources(
                (
                    claims.ClaimedDevice("gpu", "d.test", "node-1", "gpu-0", ("r1", "r2")),
                    claims.ClaimedDevice("net", "n"),
                ),
                2,
            ),
            [
                "resource claims prepared (1.00 s)",
                "device gpu-0 of pool node-1 of driver d.test is the pod's: allocated for request r1, r2 of ResourceClaim gpu",
                "device  of pool  of driver n is the pod's: allocated for ResourceClaim net",
                "and 2 more devices of claims",
            ],
            id="claims-prepared",
        ),
        pytest.param(
            names.PREPARE_RESOURCES,
            claims.PrepareResources(POD, {}),
            None,
            ["resource claims prepared (1.00 s)"],
            id="claims-prepared-by-an-earlier-release",
        ),
        pytest.param(
            names.UNPREPARE_RESOURCES,
            claims.UnprepareResources(POD),
            None,
            ["resource claims unprepared (1.00 s)"],
            id="claims-unprepared",
        ),
        pytest.param(
            names.UNMOUNT_VOLUMES,
            volumes.UnmountVolumes(POD, ({"name": "a"},)),
            None,
            ["volume a unmounted (1.00 s)"],
            id="unmounted",
        ),
        pytest.param(
            names.PULL_IMAGE,
            requests.PullImage(POD, "busybox:1", "Always"),
            requests.PulledImage("sha256:1", size_bytes=4_200_000),
            ["image busybox:1 pulled in 1.00 s, 4.2 MB"],
            id="pulled",
        ),
        pytest.param(
            names.STOP_CONTAINER,
            requests.StopContainer(POD, "web", "c1", timedelta(seconds=1), START, "ManifestRemoved"),
            seen(exit_code=137, reason="Error"),
            ["container web stopped: exit 137 Error, by SIGKILL after its grace of 1.00 s; why: ManifestRemoved"],
            id="stopped",
        ),
        pytest.param(
            names.SHORTEN_STOP,
            requests.ShortenStop(POD, "web", "c1", timedelta(seconds=1), START, "ManifestRemoved"),
            seen(exit_code=137, reason="Error"),
            [
                "the stop of container web was shortened to 1.00 s of grace",
                "container web stopped: exit 137 Error, by SIGKILL after its grace of 1.00 s; why: ManifestRemoved",
            ],
            id="shortened",
        ),
        pytest.param(
            names.STOP_CONTAINER,
            requests.StopContainer(POD, "web", "c1", timedelta(seconds=1), START, "ManifestRemoved"),
            None,
            ["container web stopped in 1.00 s, how it ended is not known; why: ManifestRemoved"],
            id="stopped-and-forgotten",
        ),
        pytest.param(
            names.RUN_HOOK,
            requests.RunHook(POD, "web", "", Hook.PRE_START, {}, reason="before restart 2"),
            HookEnded(succeeded=True, tries=3),
            ["preStart of web before restart 2 done in 1.00 s, at try 3"],
            id="a-hook-of-ours-at-its-third-try",
        ),
        pytest.param(
            names.RUN_HOOK,
            requests.RunHook(POD, "web", "c1", Hook.POST_STOP, {}, reason="after exit 1"),
            HookEnded(succeeded=False, message="exit code 4", tries=2, again=True),
            [
                (
                    "postStop of web after exit 1 failed after 1.00 s: FailedPostStopHook: exit code 4, at try 2,"
                    " repeated, because the result of an earlier try is not known"
                )
            ],
            id="a-hook-of-ours-that-failed",
        ),
        pytest.param(
            names.RUN_HOOK,
            requests.RunHook(POD, "web", "c1", Hook.POST_START, {}),
            HookEnded(succeeded=True),
            ["postStart of web done in 1.00 s"],
            id="post-start",
        ),
        pytest.param(
            names.RUN_HOOK,
            requests.RunHook(POD, "web", "c1", Hook.POST_START, {}),
            HookEnded(succeeded=False, message="exit code 3"),
            ["postStart of web failed after 1.00 s: FailedPostStartHook: exit code 3"],
            id="post-start-failed",
        ),
        pytest.param(
            names.RUN_HOOK,
            requests.RunHook(POD, "web", "c1", Hook.PRE_STOP, {}, reason="ManifestRemoved"),
            HookEnded(succeeded=False, message="exit code 3", again=True),
            [
                (
                    "preStop of web failed after 1.00 s: FailedPreStopHook: exit code 3, repeated, because the result of an"
                    " earlier try is not known"
                )
            ],
            id="pre-stop-failed-again",
        ),
        pytest.param(
            names.AWAIT_PREDECESSOR,
            requests.AwaitPredecessor(POD),
            None,
            ["no other pod of this name is left, after 1.00 s"],
            id="predecessor",
        ),
        pytest.param(
            names.REMOVE_CONTAINER,
            requests.RemoveContainer(POD, "web", "0123456789abcdef"),
            None,
            ["dead instance 0123456789ab of container web removed (1.00 s)"],
            id="removed",
        ),
        pytest.param(
            names.STOP_POD_SANDBOX, requests.StopPodSandbox(POD, "s"), None, ["sandbox stopped (1.00 s)"], id="s"
        ),
        pytest.param(
            names.REMOVE_POD_SANDBOX, requests.RemovePodSandbox(POD, "s"), None, ["sandbox removed (1.00 s)"], id="r"
        ),
        pytest.param(
            names.DELETE_POD_OBJECT,
            requests.DeletePodObject(POD, {"phase": "Failed"}),
            None,
            ["gone from the API, Failed (1.00 s)"],
            id="object-deleted",
        ),
        pytest.param(
            names.REMOVE_POD_DIRECTORIES,
            requests.RemovePodDirectories(POD, "BestEffort"),
            None,
            ["directories, logs and cgroup removed (1.00 s)"],
            id="directories",
        ),
    ],
)
def test_what_an_activity_says(recorded: Recorder, name: str, request_: Any, answer: Any, texts: Sequence[str]) -> None:
    """One row for each kind of activity."""
    recorded.do(name, request_, answer, took=1)
    assert recorded.texts()[1:] == list(texts)


def test_every_activity_and_signal_has_a_row() -> None:
    """A new kind without a row is noticed here, and its request is read by its own type."""
    assert {row.name: request for request, row in ACTIONS.items()} == {
        name: row.asked for name, row in ACTIVITIES.items()
    }
    assert set(SIGNALS) == {
        names.POD_LISTED,
        names.DELETION_REQUESTED,
        names.RUNTIME_CHANGED,
        names.PROBE_VERDICT,
        names.OBJECTS_CHANGED,
        names.STORAGE_EXCEEDED,
        names.BEHAVIOUR_COMMITTED,
        names.STATUS_GIVEN,
    }


@pytest.mark.parametrize(
    ("name", "signal", "texts"),
    [
        pytest.param(
            names.DELETION_REQUESTED,
            DeletionRequested("file", "ManifestRemoved", "hello.yaml is gone", timedelta(seconds=1)),
            ["deletion requested by file: ManifestRemoved: hello.yaml is gone, grace 1.00 s"],
            id="deletion",
        ),
        pytest.param(names.POD_LISTED, PodListed("file"), [], id="the-signal-that-starts-is-the-start"),
        pytest.param(names.POD_LISTED, PodListed("file", sequence=3), [], id="a-poller-that-began-anew-is-no-news"),
        pytest.param(names.POD_LISTED, PodListed("file", pod=LISTED), [], id="nor-is-one-that-tells-the-content"),
        pytest.param(
            names.POD_LISTED,
            PodListed("file", pod=edited(activeDeadlineSeconds=2), in_place=True),
            ["manifest changed: activeDeadlineSeconds set to 2"],
            id="an-edit-in-place",
        ),
        pytest.param(
            names.POD_LISTED,
            PodListed("file", pod=edited(hostNetwork=True), in_place=True),
            [
                "manifest changed: hostNetwork set to True; the pod is replaced, because hostNetwork set to True cannot be changed"
            ],
            id="an-edit-that-replaces",
        ),
        pytest.param(
            names.POD_LISTED,
            PodListed("api", pod=annotated({"postStop.tempolet.dev/web": "{}"}), in_place=True),
            [],
            id="an-edit-in-the-api-that-adds-a-hook-adds-nothing",
        ),
        pytest.param(
            names.POD_LISTED,
            PodListed("api", pod=LISTED, in_place=True, resize=ResizeVerdict(PendingResize("Deferred", "no room", 2))),
            ["its source asks for a resize, which is Deferred: no room; its resources stay as they are"],
            id="a-resize-that-is-not-granted",
        ),
        pytest.param(
            names.POD_LISTED,
            PodListed("file", pod=edited(activeDeadlineSeconds=2)),
            ["manifest changed: activeDeadlineSeconds set to 2; the pod is replaced"],
            id="an-edit-that-an-older-release-replaces-by",
        ),
        pytest.param(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=("c1",)), [], id="the-look-tells-the-end"),
        pytest.param(names.RUNTIME_CHANGED, RuntimeChanged("restart"), [], id="a-restart-of-the-poller-is-no-news"),
        pytest.param(
            names.RUNTIME_CHANGED, RuntimeChanged("reboot"), ["the machine was restarted"], id="a-reboot-is-told"
        ),
        pytest.param(
            names.RUNTIME_CHANGED,
            RuntimeChanged("relist", sandbox_lost=True),
            [],
            id="the-look-tells-the-lost-sandbox",
        ),
        pytest.param(
            names.OBJECTS_CHANGED,
            ObjectsChanged("objects", {"configmaps/web": "2", "secrets/db": ""}),
            ["configmap web changed", "secret db removed"],
            id="objects",
        ),
        pytest.param(
            names.STORAGE_EXCEEDED,
            StorageExceeded("local-storage", "data", 2_101_248),
            ["volume data exceeds its sizeLimit: 2101248 bytes"],
            id="storage",
        ),
        pytest.param(
            names.STORAGE_EXCEEDED,
            StorageExceeded("local-storage", used_bytes=7, container="web"),
            ["container web exceeds its ephemeral-storage limit: 7 bytes"],
            id="storage-of-a-container",
        ),
        pytest.param(
            names.STORAGE_EXCEEDED,
            StorageExceeded("local-storage", used_bytes=7),
            ["the pod exceeds its ephemeral-storage limit: 7 bytes"],
            id="storage-of-all",
        ),
        pytest.param("FromTomorrow", {}, ["signal FromTomorrow, which this release does not know"], id="unknown"),
        pytest.param(
            names.DELETION_REQUESTED, {"odd": 1}, ["signal DeletionRequested from , which cannot be read"], id="odd"
        ),
        pytest.param(
            names.STATUS_GIVEN,
            StatusGiven("api", ended=Ended("Failed", "Evicted", "by somebody")),
            ["the API shows the pod as Failed (Evicted: by somebody)"],
            id="ended-in-the-api",
        ),
        pytest.param(
            names.STATUS_GIVEN,
            StatusGiven("api", conditions={"gate": GivenCondition("True", START)}),
            ["conditions set by others in the API: gate True"],
            id="conditions-of-others",
        ),
    ],
)
def test_what_a_signal_says(recorded: Recorder, name: str, signal: Any, texts: Sequence[str]) -> None:
    """Hints yield nothing, requests say who and why."""
    recorded.signal(name, signal)
    said = recorded.texts()[1:]
    assert len(said) == len(texts)
    assert all(one.startswith(text) for one, text in zip(said, texts, strict=True))
