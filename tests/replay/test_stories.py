"""Does the story of every recorded life say what happened in it?"""

import re
from itertools import groupby
from pathlib import Path

import pytest

from worker.commands.replay import read_history
from worker.history.sentences.story_state import Line
from worker.history.story import build_story

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))
LIVES = {
    name: list(paths)
    for name, paths in groupby(HISTORIES, key=lambda path: re.sub(r"^v\d+-|-\d+$", "", path.stem) + path.stem[:3])
}
SAID = {
    "plain": [
        "manifest .* listed",
        "image .* present",
        "sandbox attempt 0 ready",
        "container ",
    ],
    "three-init-containers": [*(f"container init-{one} ended: exit 0" for one in range(3)), "container main started"],
    "early-ends": [
        "container init-0 started .*container init-0 ended: exit 0 Completed",
        "container init-1 started .*container init-1 ended: exit 0 Completed",
        "container init-2 started",
        "container init-2 ended: exit 0 Completed",
        "container main started",
    ],
    "failing-init": ["container init-1 ended: exit 1", "pod Failed"],
    "crash-loop": ["main ended: exit 1", "restart 1", "waits .*CrashLoopBackOff: restart 2", "restart 2", "restart 3"],
    "image-not-found": ["image .* failed after .*ErrImagePull", "waits 10.0 s: ErrImagePull", "ImagePullBackOff"],
    "pull-secrets": [
        "image .*ErrImagePull.*FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets \\(nowhere, late\\)",
        "image .*401 Unauthorized.*image pull secrets \\(nowhere\\)",
        "image .* pulled in .* MB",
        "FailedToRetrieveImagePullSecret: .* \\(nowhere\\); attempting to pull the image may not succeed",
        "container main started",
    ],
    "deletion-during-start": ["deletion requested by file: ManifestRemoved", "sandbox removed", "the pod is gone"],
    "sandbox-killed": ["sandbox attempt 0 is no longer ready", "sandbox attempt 1 ready", "started, restart 1"],
    "worker-restarted": ["another worker took over"],
    "machine-restarted": [
        "waits .*CrashLoopBackOff: restart 3 of main",
        "the machine was restarted",
        "sandbox attempt 1 ready",
        "container main started, restart .*: in a new sandbox after exit .*, without back-off",
    ],
    "behaviour-raised": [
        "container main started",
        r"the node is committed to behaviour \d+: the pod takes it up in a quiet moment",
        r"it continues in a new run, which follows behaviour \d+",
        "started, restart 1",
        "waits .*CrashLoopBackOff: restart 2 of main",
        "started, restart 2",
    ],
    "volumes": [
        "mounting volumes disk, fast, host failed .*FailedMount: .*hostPath type check failed: .* is not a directory",
        "volume.* mounted in|volume.* already mounted",
        "container main started",
        "sandbox attempt 0 is no longer ready",
        "volumes disk, fast, host already mounted",
        "sandbox attempt 1 ready",
        "sandbox removed",
        "volumes disk, fast, host unmounted",
        "directories, logs and cgroup removed",
    ],
    "late-driver": [
        "mounting volume data failed after .*FailedMount: .* not found in the list of registered CSI drivers",
        "waits .*FailedMount",
        "volume data mounted in",
        "unmounting volume data failed after .*FailedUnmount: .*Internal desc = the device is busy",
        "volume data unmounted",
        "the pod is gone",
    ],
    "late-object": [
        'starting container waits.* failed after .*CreateContainerConfigError: configmap "late" not found',
        "container runs started",
        "CreateContainerConfigError: couldn't find key late in ConfigMap default/late",
        "container waits started",
    ],
    "skipped-backoff": [
        "operator root@node-1 skipped the back-off of main",
        "restart 2 .*skipped by root@node-1 after",
    ],
    "readiness-gate": [
        "operator root@node-1 set condition example.com/lb to True, it had none \\(ByHand\\)",
        "pod ready",
        "operator root@node-1 set condition example.com/lb to False, it was True",
        "pod not ready",
    ],
    "ephemeral-container": [
        "operator root@node-1 added ephemeral container waits of .*, to see the processes of main \\(unable to find",
        "operator root@node-1 added ephemeral container helps of .*, to see the processes of init-0",
        "container helps started",
        "container helps ended: exit 137",
        "container waits started",
        "container waits stopped.*ManifestRemoved",
    ],
    "deadline": ["waits .*activeDeadlineSeconds: the pod is stopped at", "DeadlineExceeded: Pod was", "pod Failed"],
    "evicted": [
        "operator root@node-1 evicted the pod: Evicted: The node was low on resource: memory. .grace 2.00 s",
        "main stopped: exit 137 Error, by SIGKILL .*why: Evicted: .*asked by operator root@node-1",
        "pod Failed",
        "deletion requested by file: ManifestRemoved",
        "the pod is gone: Failed.*Evicted",
    ],
    "storage-exceeded": [
        "volume data exceeds its sizeLimit: 31.* bytes",
        'main stopped: exit 137 Error, by SIGKILL .*why: Evicted: Usage of EmptyDir volume "data" exceeds',
        "pod Failed",
        "the pod is gone: Failed.*Evicted",
    ],
    "stop-shortened": [
        "deletion requested by operator",
        "stop of container main was shortened to 1.00 s of grace",
        "main stopped: exit 137 Error, by SIGKILL after its grace of 1.00 s; why: ManifestRemoved",
    ],
    "stop-asked": [
        "operator root@node-1 asked to stop it within 1.00 s: its grace period ends .* sooner",
        "main stopped: exit 137 Error, by SIGKILL",
        "the pod is gone",
    ],
    "image-changed": [
        "manifest changed: image of main from docker.io/library/busybox:1.37 to busybox:1.37",
        "main stopped: exit 0.*Container main definition changed, will be restarted",
        "main started, restart 1 .*: with image busybox:1.37 instead of docker.io/library/busybox:1.37 after exit 0",
        "manifest changed: labels app",
        "manifest changed: activeDeadlineSeconds set to 1",
        "DeadlineExceeded",
        "pod Failed",
    ],
    "sidecars": [
        "container side-a started",
        "container init-0 ended: exit 0",
        "container side-b started",
        "container main started",
        "container side-a ended: exit 137",
        "container side-a started, restart 1",
        "container main ended: exit 0 Completed",
        "container side-b stopped.*the pod has finished",
        "container side-a stopped.*the pod has finished",
        "pod Succeeded",
    ],
    "restart-rules": [
        "main ended: exit 42",
        "restart 1 .*rule Restart after exit 42",
        "waits .*CrashLoopBackOff: restart 2",
        "restart 2",
    ],
    "restart-all": [
        "container main ended: exit 88",
        "container beside stopped.*RestartingAllContainers: main ended with 88",
        "instance .* of container main removed",
        "container init-0 started, restart 1 .*with all containers, as the rule of main asks, after exit 0",
        "container beside started, restart 1",
        "container main started, restart 1 .*rule RestartAllContainers after exit 88",
    ],
    "probes": [
        "container main passed its startup probe",
        "container main is ready",
        "container main is not ready, its readiness probe failed",
        "container main failed its liveness probe",
        "another worker took over",
        "main stopped.*grace of 1.00 s; why: Container main failed liveness probe, will be restarted",
        "container main started, restart 1",
        "container main is ready",
    ],
    "both-hooks": ["postStart of main done", "pod Running, ready", "preStop of main done .* repeated", "main stopped"],
    "failing-post-start": [
        "postStart of main failed after .*FailedPostStartHook: exit code 1",
        "preStop of main done",
        "main stopped.*FailedPostStartHook",
        "started, restart 1",
    ],
    "own-hooks": [
        "container main started",
        "preStart of second before its start done in .*, at try \\d",
        "container second started",
        "postStop of main after exit 0 done .* repeated",
        "sandbox stopped",
    ],
    "finished": ["container main ended: exit 0 Completed", "pod Succeeded"],
    "pod-resources": [
        "manifest changed: resources of main from cpu 20m up to 100m",
        "container main resized in place: cpu 20m up to 200m, memory 8Mi up to 32Mi",
        "the pod is gone",
    ],
    "resize": [
        "manifest changed: resources of main from cpu 50m up to 200m, memory 8Mi up to 64Mi to cpu 50m up to 400m",
        "the pod's cgroup raised before its containers are resized",
        "container main resized in place: cpu 50m up to 400m, memory 8Mi up to 64Mi",
        "manifest changed: resources of main",
        "main stopped.*why: Container main resize requires restart",
        "the pod's cgroup set to what its containers have now",
        "resize.* is (Infeasible: Node didn't have enough capacity|Deferred: Node didn't have enough resource): cpu, requested: 900000",
    ],
}

SAID_OF_API = {
    "api-plain": [
        "the api source lists the pod",
        "sandbox attempt 0 ready",
        "pod Running, ready",
        "deletion requested by api: PodDeleted: its object was deleted in the API, grace 5.00 s",
        "main stopped: exit 0",
        "directories, logs and cgroup removed",
        "gone from the API, Succeeded",
        "the pod is gone",
    ],
    "api-finished": ["main ended: exit 0 Completed", "pod Succeeded", "deletion requested by api", "gone from the API"],
    "api-rejected": [
        "the node rejects the pod: OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu",
        "pod Failed",
        "deletion requested by api",
        "the pod is gone: Failed.*OutOfcpu",
    ],
    "api-forced": [
        "pod Running, ready",
        "deletion requested by api: (PodDeleted|PodRemoved): ",  # both events come at once, and the poller may have sent the first one
        "main stopped",
        "gone from the API",
    ],
    "api-deleted-during-pull": ["sandbox attempt 0 ready", "deletion requested by api", "gone from the API, Failed"],
    "api-edited": [
        "pod changed: labels app",
        "container look started",
        "container main resized in place: cpu 20m",
        "main stopped: exit 0.*Container main definition changed, will be restarted",
        "container main started, restart 1",
        "gone from the API",
    ],
    "api-token": ["serviceaccounttoken .* changed", "volume kube-api-access-.* refreshed", "gone from the API"],
    "api-evicted": [
        "the node evicted the pod: Evicted: The node was low on resource: memory.",
        "main stopped: exit 0 Completed",
        "pod Succeeded, not ready",
        "the pod is gone: Succeeded.*Evicted",
    ],
    "api-ended-by-others": [
        "conditions set by others in the API: example.com/lb True",
        "pod ready",
        "the API shows the pod as Failed .NodeLost: the controller has given it up",
        "pod Failed, not ready",
        "main stopped: exit 0",
        "the pod is gone: Failed",
    ],
    "api-history-lost": [
        "it is here since .*, and had no workflow any more",
        "pod Running, ready",
        "deletion requested by api: PodDeleted",
        "main stopped: exit 0",
        "the pod is gone: Succeeded, restarts 1",
    ],
    "api-end-lost": [
        "it is here since",
        "the API shows the pod as Succeeded",
        "deletion requested by api: PodDeleted",
        "sandbox removed",
        "gone from the API, Succeeded",
    ],
    "api-deleted-unseen": ["deletion requested by api: .*grace 7.00 s", "gone from the API", "the pod is gone"],
}


def story(paths: list[Path], *, together: bool = True) -> list[Line]:
    """Return the story of all runs of a life, or of two lives one after the other."""
    histories = [read_history(path).events for path in paths]
    told = [build_story(histories)] if together else [build_story([one]) for one in histories]
    return [line for one in told for line in one.lines]


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_every_line_has_its_words(path: Path) -> None:
    """No event is unknown to the story, and its times never go back."""
    lines = story([path])
    assert lines
    assert not [line for line in lines if "cannot be read" in line.text or "does not know" in line.text]
    assert not [line for line in lines if re.fullmatch(r"\w+ done", line.text)]
    assert [line.at for line in lines] == sorted(line.at for line in lines)


@pytest.mark.parametrize("life", SAID | SAID_OF_API)
def test_the_life_is_told_in_its_order(life: str) -> None:
    """The events for which this life was recorded are in its story."""
    recorded = [paths for name, paths in LIVES.items() if name.startswith(f"{life}v")]
    assert recorded
    for paths in recorded:
        texts = "\n".join(line.text for line in story(paths))
        assert re.search("(?s)" + ".*".join((SAID | SAID_OF_API)[life]), texts), texts


@pytest.mark.parametrize("life", ["continue-as-new", "listed-again"])
def test_runs_of_one_workflow_are_one_story(life: str) -> None:
    """Each run continues the one before; a raised or long life has more than two."""
    for paths in (paths for name, paths in LIVES.items() if name.startswith(f"{life}v")):
        lines = story(paths)
        runs = {line.run for line in lines}
        assert runs == set(range(1, max(runs) + 1))
        assert len(runs) > 1
        assert [line for line in lines if line.text.endswith(("continued in a new run", "it starts over"))]
        assert lines[-1].text.startswith("the pod is gone")


def test_an_edited_manifest_is_two_lives() -> None:
    """The old pod is deleted, the new one waits for it."""
    for paths in (paths for name, paths in LIVES.items() if name.startswith("manifest-editv")):
        texts = "\n".join(line.text for line in story(paths, together=False))
        assert re.search("(?s)ManifestReplaced.*the pod is gone.*attempt 0 waits: .*no other pod of this name", texts)
