"""Does a container see ConfigMaps, Secrets and the downward API as files, and are these updated, on real containerd?"""

import asyncio
import copy
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from activities.files.mounts import mount_at, mounts_below
from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import container_pid
from tests.node.kept_objects import object_file, put_object
from tests.node.operating import history, look_in, tempolet
from tests.node.pod_story import history_text, log_lines, log_path
from tests.node.secrets.searched_files import content_of, files_with
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest

CANARY = "c4n4ry-of-a-secret-nobody-may-tell"
AS_PROGRAMS = True  # what /proc shows of them must have no secret


def showing(name: str, volumes: list[dict[str, Any]], command: str = "sleep 3600", **spec: Any) -> dict[str, Any]:
    """Build a pod with a uid of its own that mounts each volume at `/<its name>`."""
    manifest = pod_manifest(name, command, volumes=volumes, **spec)
    manifest["metadata"]["uid"] = f"uid-of-{name}"
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    manifest["spec"]["containers"][0]["volumeMounts"] = mounts
    return manifest


def inside(node: TempoletNode, snapshot: PodSnapshot) -> Path:
    """Return the root of the container's file system."""
    return Path(f"/proc/{container_pid(node.containerd, snapshot.containers['main'].container_id)}/root")


def says(path: Path, text: str) -> Callable[[], bool]:
    """Return whether a file contains exactly this text now."""
    return lambda: path.exists() and path.read_text() == text


def test_files_modes_and_a_volume_of_everything(node: TempoletNode) -> None:
    """As seen in the container: links, modes, read-only files; everything is removed with the pod."""
    put_object(node, "configmaps", "app", data={"app.conf": "port=80\n", "other": "x"}, binaryData={"blob": "AP8="})
    put_object(node, "secrets", "keys", stringData={"password": CANARY})
    labels = {"path": "meta/labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    limit = {
        "path": "memory",
        "resourceFieldRef": {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"},
    }
    volumes = [
        {"name": "conf", "configMap": {"name": "app", "items": [{"key": "app.conf", "path": "etc/my.conf"}]}},
        {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        {"name": "about", "downwardAPI": {"items": [labels, limit]}},
        {
            "name": "all",
            "projected": {
                "defaultMode": 0o444,
                "sources": [
                    {"configMap": {"name": "app"}},
                    {"secret": {"name": "keys", "items": [{"key": "password", "path": "pass", "mode": 0o440}]}},
                    {"downwardAPI": {"items": [labels]}},
                    {"secret": {"name": "absent", "optional": True}},
                ],
            },
        },
        {"name": "maybe", "configMap": {"name": "absent", "optional": True}},
    ]
    command = (
        "cat /conf/etc/my.conf; stat -L -c %a /keys/password /conf/etc/my.conf /all/pass; cat /about/meta/labels; echo; "
        "cat /about/memory; echo; ls /all /maybe; touch /keys/x || echo refused; touch /conf/x || echo refused; sleep 3600"
    )
    manifest = showing("files", volumes, command)
    manifest["metadata"]["labels"] = {"app": "web"}
    manifest["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    node.apply(manifest)
    snapshot = node.until_running("files")
    node.until(lambda: log_lines(log_path(node, snapshot)).count("refused") == 2, "all that was printed")
    said = [one for one in log_lines(log_path(node, snapshot)) if not one.startswith("touch:")]
    assert said == [
        *("port=80", "400", "644", "440", 'app="web"', "64"),
        *("/all:", "app.conf", "blob", "meta", "other", "pass", "", "/maybe:", "refused", "refused"),
    ]
    volumes_dir = node.root_dir / "pods" / snapshot.uid / "volumes"
    kinds = {one: mount_at(volumes_dir / one) for one in ("kubernetes.io~secret/keys", "kubernetes.io~configmap/conf")}
    assert [one.kind if one else "" for one in kinds.values()] == ["tmpfs", ""]
    node.take_away("files")
    assert mounts_below(node.root_dir / "pods") == []


def test_a_pod_waits_for_its_config_map_and_starts_when_it_comes(node: TempoletNode) -> None:
    """With the kubelet's message; other pods are not delayed; the creation of the object starts the pod."""
    node.apply(showing("late", [{"name": "conf", "configMap": {"name": "late"}}]))
    node.apply(pod_manifest("beside-late"))
    waiting = node.until_pod("late", lambda one: one.reason == "FailedMount")
    assert waiting.message.startswith(
        'MountVolume.SetUp failed for volume "conf" : configmap "late" not found: there is no '
    )
    node.until_running("beside-late")
    put_object(node, "configmaps", "late", data={"a": "here"})
    snapshot = node.until_running("late")
    assert (inside(node, snapshot) / "conf/a").read_text() == "here"
    assert "configmap late changed" in history(node, snapshot)


def test_a_volume_that_no_container_uses_is_not_waited_for(node: TempoletNode) -> None:
    """The pod runs at once without its Secret; an ephemeral container that mounts it waits for it, and the pod's own runs on."""
    manifest = showing("unused", [{"name": "conf", "configMap": {"name": "unused"}}])
    manifest["spec"]["volumes"].append({"name": "keys", "secret": {"secretName": "unused"}})
    put_object(node, "configmaps", "unused", data={"a": "here"})
    node.apply(manifest)
    snapshot = node.until_running("unused")
    folder = node.root_dir / "pods" / snapshot.uid / "volumes/kubernetes.io~secret"
    assert not folder.exists()
    assert "volume conf mounted" in history(node, snapshot)
    mounts = [{"name": "keys", "mountPath": "/keys"}]
    look = {"name": "looks", "image": BUSYBOX, "command": ["sleep", "3600"], "volumeMounts": mounts}
    asyncio.run(look_in(node, snapshot, look))
    waiting = node.until_pod("unused", lambda one: one.reason == "FailedMount", "its mount refused")
    assert waiting.message.startswith('MountVolume.SetUp failed for volume "keys" : secret "unused" not found')
    assert waiting.ready
    put_object(node, "secrets", "unused", stringData={"a": CANARY})
    node.until_pod("unused", lambda one: "running" in str(one.status.get("ephemeralContainerStatuses")), "the look")
    assert (folder / "keys/a").read_text() == CANARY
    assert node.until_running("unused").restarts == 0
    node.take_away("unused")
    assert mounts_below(node.root_dir / "pods") == []


def test_files_follow_their_objects_while_the_process_runs_on(node: TempoletNode) -> None:
    """Atomically and at once; a subPath is not updated; the history says what changed, without the content."""
    put_object(node, "configmaps", "live", data={"a": "1", "b": "1"})
    put_object(node, "secrets", "live", stringData={"token": f"{CANARY}-1"})
    volumes = [
        {"name": "conf", "configMap": {"name": "live"}},
        {"name": "keys", "secret": {"secretName": "live"}},
    ]
    manifest = showing("follow", volumes)
    sub_path = {"name": "conf", "mountPath": "/frozen", "subPath": "a"}
    manifest["spec"]["containers"][0]["volumeMounts"].append(sub_path)
    node.apply(manifest)
    first = node.until_running("follow")
    root = inside(node, first)
    assert (root / "frozen").read_text() == "1"
    put_object(node, "configmaps", "live", data={"a": "2", "c": "2"})
    node.until(says(root / "conf/a", "2"), "the new file")
    node.until(says(root / "conf/c", "2"), "another new one, which is named when the content of all is there")
    node.until(lambda: not (root / "conf/b").is_symlink(), "the old one gone")
    assert (root / "frozen").read_text() == "1"
    put_object(node, "secrets", "live", stringData={"token": f"{CANARY}-2"})
    node.until(says(root / "keys/token", f"{CANARY}-2"), "the new secret")
    after = node.until_pod("follow", lambda one: one.objects["secrets/live"] != first.objects["secrets/live"])
    assert (after.restarts, after.ready) == (0, True)
    os.kill(container_pid(node.containerd, first.containers["main"].container_id), signal.SIGKILL)
    again = node.until_pod("follow", lambda one: one.restarts == 1 and one.ready, "started again")
    assert (inside(node, again) / "frozen").read_text() == "2"
    told = history(node, after)
    assert "configmap live changed" in told
    assert "volume conf refreshed in " in told
    assert "secret live changed" in told
    assert CANARY not in history_text(node, after) + told


def test_a_change_while_the_poller_and_the_worker_are_away_is_made_good(node: TempoletNode) -> None:
    """The poller compares when it is back; a killed worker's mounts are found again."""
    put_object(node, "configmaps", "away", data={"a": "1"})
    node.apply(showing("away", [{"name": "conf", "configMap": {"name": "away"}}]))
    snapshot = node.until_running("away")
    root = inside(node, snapshot)
    node.stop("poller", signal.SIGKILL)
    node.stop("worker", signal.SIGKILL)
    put_object(node, "configmaps", "away", data={"a": "2"})
    node.start("worker")
    node.start("poller")
    node.until(says(root / "conf/a", "2"), "the file as it is now")
    assert node.until_running("away").restarts == 0


def test_a_worker_that_is_killed_while_files_change_leaves_them_whole(node: TempoletNode) -> None:
    """Forty changes, two kills: the last version is there at the end, and nothing of the others."""
    put_object(node, "configmaps", "churn", data={"a": "0", "b": "0"})
    node.apply(showing("churn", [{"name": "conf", "configMap": {"name": "churn"}}]))
    snapshot = node.until_running("churn")
    folder = node.root_dir / "pods" / snapshot.uid / "volumes/kubernetes.io~configmap/conf"
    for number in range(1, 41):
        put_object(node, "configmaps", "churn", data={"a": str(number), "b": str(number)})
        if number in (13, 27):
            node.until(lambda: (folder / "a").read_text() != "0", "a change on its way")
            node.stop("worker", signal.SIGKILL)
            assert (folder / "..data/a").read_text() == (folder / "..data/b").read_text()
            node.start("worker")
    node.until(says(inside(node, snapshot) / "conf/a", "40"), "the last version")
    node.until(lambda: len([one for one in folder.iterdir() if one.name.startswith("..2")]) == 1, "nothing left over")
    assert not (folder / "..data_tmp").is_symlink()
    assert node.until_running("churn").restarts == 0


def test_an_object_that_breaks_a_rule_changes_nothing_until_it_is_mended(node: TempoletNode) -> None:
    """The files stay, and a restarted container still uses them; the reason is reported without a value."""
    put_object(node, "secrets", "broken", stringData={"token": "good"})
    command = "cat /keys/token; echo; sleep 3600"
    node.apply(showing("broken", [{"name": "keys", "secret": {"secretName": "broken"}}], command))
    first = node.until_running("broken")
    root = inside(node, first)
    file = object_file(node, "secrets", "broken")
    file.chmod(0o644)
    node.until(lambda: "so others may see a secret: chmod 0600 it" in history(node, first), "the refusal told")
    assert (root / "keys/token").read_text() == "good"
    container_pid(node.containerd, first.containers["main"].container_id)
    put_object(node, "secrets", "broken", stringData={"token": "mended"})
    node.until(says(root / "keys/token", "mended"), "the mended secret")


def test_an_immutable_object_and_one_that_is_gone_leave_their_files(node: TempoletNode) -> None:
    """Neither is watched, and the history does not grow."""
    put_object(node, "configmaps", "fixed", data={"a": "1"}, immutable=True)
    put_object(node, "configmaps", "fleeting", data={"a": "1"})
    put_object(node, "configmaps", "mark", data={"a": "1"})
    volumes = [{"name": one, "configMap": {"name": one}} for one in ("fixed", "fleeting", "mark")]
    node.apply(showing("steady", volumes))
    snapshot = node.until_running("steady")
    root = inside(node, snapshot)
    put_object(node, "configmaps", "fixed", data={"a": "2"}, immutable=True)
    object_file(node, "configmaps", "fleeting").unlink()
    put_object(node, "configmaps", "mark", data={"a": "2"})
    node.until(says(root / "mark/a", "2"), "what follows")
    assert [(root / one / "a").read_text() for one in ("fixed", "fleeting")] == ["1", "1"]
    told = history(node, snapshot)
    assert "configmap fleeting removed" in told
    assert "configmap fixed changed" not in told


def test_files_that_tell_of_the_pod_follow_its_edit(node: TempoletNode) -> None:
    """Labels and annotations, in place: the same process sees them."""
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['note']"}},
    ]
    manifest = showing("edited", [{"name": "about", "downwardAPI": {"items": items}}])
    manifest["metadata"] |= {"labels": {"app": "one"}, "annotations": {"note": "first"}}
    node.apply(manifest)
    first = node.until_running("edited")
    root = inside(node, first)
    assert (root / "about/labels").read_text() == 'app="one"'
    after = copy.deepcopy(manifest)
    after["metadata"] |= {"labels": {"app": "two", "b": "c"}, "annotations": {"note": "second"}}
    node.apply(after)
    node.until(says(root / "about/labels", 'app="two"\nb="c"'), "the new labels")
    assert (root / "about/note").read_text() == "second"
    node.until(lambda: "volume about refreshed in " in history(node, first), "told when the writing has answered")
    assert node.until_running("edited").restarts == 0


def test_another_volume_is_mounted_inside_one_that_may_not_be_written(node: TempoletNode) -> None:
    """The mount point exists before the runtime needs it, and stays when the files change."""
    put_object(node, "configmaps", "outer", data={"a": "1"})
    volumes = [{"name": "conf", "configMap": {"name": "outer"}}, {"name": "run", "emptyDir": {}}]
    manifest = showing("nested", volumes, "echo hi > /conf/run/x; sleep 3600")
    manifest["spec"]["containers"][0]["volumeMounts"][1]["mountPath"] = "/conf/run"
    node.apply(manifest)
    snapshot = node.until_running("nested")
    root = inside(node, snapshot)
    node.until(says(root / "conf/run/x", "hi\n"), "what was written inside")
    put_object(node, "configmaps", "outer", data={"a": "2"})
    node.until(says(root / "conf/a", "2"), "the new file")
    assert (root / "conf/run/x").read_text() == "hi\n"


def test_the_pods_group_may_read_a_secret(node: TempoletNode) -> None:
    """A program in the pod's group that is not root reads a file with mode 0400."""
    put_object(node, "secrets", "grouped", stringData={"token": "readable"})
    volume = {"name": "keys", "secret": {"secretName": "grouped", "defaultMode": 0o400}}
    security = {"fsGroup": 4242, "runAsUser": 1000, "runAsGroup": 1000}
    command = "id -G; stat -L -c '%a %g' /keys/token; cat /keys/token; echo; sleep 3600"
    node.apply(showing("grouped", [volume], command, securityContext=security))
    snapshot = node.until_running("grouped")
    node.until(lambda: log_lines(log_path(node, snapshot))[-1:] == ["readable"], "the secret read")
    assert log_lines(log_path(node, snapshot)) == ["1000 4242", "440 4242", "readable"]


def test_a_secret_is_nowhere_but_in_its_container(node: TempoletNode) -> None:
    """Not in Temporal's database, our logs and files, the commands' output, or our processes' arguments and environment."""
    put_object(node, "secrets", "hidden", stringData={"token": CANARY})
    volume = {"name": "keys", "secret": {"secretName": "hidden"}}
    node.apply(showing("hidden", [volume], "test -s /keys/token && sleep 3600"))
    snapshot = node.until_running("hidden")
    assert (inside(node, snapshot) / "keys/token").read_text() == CANARY
    said = node.log("worker") + node.log("poller") + history(node, snapshot) + history_text(node, snapshot)
    for command in ("explain", "pods"):
        said += tempolet(node, command, *([f"default/{snapshot.name}"] if command == "explain" else []))[1]
    assert CANARY not in said
    needle = CANARY.encode()
    assert files_with(needle, node.root_dir) == []
    database = node.temporal.database
    databases = list(database.parent.glob(f"{database.name}*"))
    assert databases
    assert not [path for path in databases if needle in content_of(path)]
    for process in node.processes.values():
        started = [Path(f"/proc/{process.pid}/{one}").read_bytes() for one in ("environ", "cmdline")]
        assert not [one for one in started if needle in one]
