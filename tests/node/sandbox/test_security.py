"""Which users, groups, privileges, profiles and namespaces does a container have, seen from inside?"""

import json
from functools import partial
from pathlib import Path
from typing import Any

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import containers_of
from tests.node.images.image_users import GROUP_ID, OTHER_GROUP_ID, USER_ID, import_image_of
from tests.node.kept_objects import put_object
from tests.node.operating import tempolet
from tests.node.pod_story import log_path, until_logged
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest

STAY = "trap 'exit 0' TERM; echo; echo told; while :; do sleep 0.1; done"
LOOK = f"cat /proc/self/status; cat /proc/self/mounts; {STAY}"
NODE_KEYS = {"allowedUnsafeSysctls": ["kernel.msg*"]}
"""One unsafe sysctl is allowed."""


def container(name: str = "main", command: str = LOOK, **security: Any) -> dict[str, Any]:
    """Build a container that prints what it sees."""
    own = {"securityContext": security} if security else {}
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", command], **own}


def told(node: TempoletNode, pod: PodSnapshot, name: str = "main") -> str:
    """Read what a container has written, including its last line."""
    return "\n".join(until_logged(node, log_path(node, pod, name), "told"))


def seen(text: str) -> dict[str, str]:
    """Parse /proc/self/status in the output."""
    return {key: value.strip() for key, colon, value in (one.partition(":") for one in text.splitlines()) if colon}


def mounts(text: str) -> dict[str, set[str]]:
    """Parse /proc/mounts in the output: device, path, type, options, 0, 0."""
    words = (line.split() for line in text.splitlines())
    return {one[1]: {one[0], *one[3].split(",")} for one in words if len(one) == 6}


def look(node: TempoletNode, name: str, *containers: dict[str, Any], **spec: Any) -> PodSnapshot:
    """Start a pod, and return it once it runs."""
    node.apply(pod_manifest(name, containers=list(containers or (container(),)), **spec))
    return node.until_running(name)


def test_users_and_groups(node: TempoletNode) -> None:
    """The container's settings override the pod's; fsGroup is one of its groups."""
    pod = look(
        node,
        "ids",
        container(),
        container("other", runAsUser=3000),
        securityContext={"runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 5000, "supplementalGroups": [6000]},
    )
    status = seen(told(node, pod))
    assert status["Uid"].split() == ["1000"] * 4
    assert status["Gid"].split() == ["2000"] * 4
    assert {"5000", "6000"} <= set(status["Groups"].split())
    other = seen(told(node, pod, "other"))
    assert (other["Uid"].split()[0], other["Gid"].split()[0]) == ("3000", "2000")
    node.take_away("ids")


def test_the_group_of_a_volume(node: TempoletNode) -> None:
    """Every container is in the group that a PersistentVolume names, whether it mounts the volume or not."""
    claim = {"namespace": "default", "name": "shared"}
    named = {"name": "shared", "annotations": {"pv.beta.kubernetes.io/gid": "7777"}}
    (node.directory / "shared").mkdir()
    made_of = {"hostPath": {"path": str(node.directory / "shared")}, "accessModes": ["ReadWriteOnce"]}
    put_object(node, "persistentvolumes", "shared", metadata=named, spec={**made_of, "claimRef": claim})
    put_object(
        node, "persistentvolumeclaims", "shared", spec={"volumeName": "shared", "accessModes": ["ReadWriteOnce"]}
    )
    volume = {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}
    main = container() | {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    pod = look(node, "grouped", main, container("beside", runAsUser=1000), volumes=[volume])
    for name in ("main", "beside"):
        assert "7777" in seen(told(node, pod, name))["Groups"].split()
    node.take_away("grouped")


def test_strict_groups(node: TempoletNode) -> None:
    """Only the pod's groups, and none of the image's (since containerd 2.0)."""
    context = {"supplementalGroups": [6000], "supplementalGroupsPolicy": "Strict", "runAsUser": 0, "runAsGroup": 0}
    pod = look(node, "strict", securityContext=context)
    assert seen(told(node, pod))["Groups"].split() in (["0", "6000"], ["6000"])
    node.take_away("strict")


def test_what_it_may_do(node: TempoletNode) -> None:
    """Capabilities, no_new_privs, seccomp and a read-only root; a plain container beside it has the defaults."""
    tight: dict[str, Any] = {
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pod = look(node, "tight", container(**tight), container("plain"))
    log, plain = told(node, pod), told(node, pod, "plain")
    status, usual = seen(log), seen(plain)
    assert int(status["CapEff"], 16) == 1 << 10
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert (usual["NoNewPrivs"], usual["Seccomp"]) == ("0", "0")
    assert int(usual["CapEff"], 16) > int(status["CapEff"], 16)
    assert "ro" in mounts(log)["/"]
    assert "rw" in mounts(plain)["/"]
    assert "ro" in mounts(plain)["/proc/sys"]
    node.take_away("tight")


def test_a_privileged_one(node: TempoletNode) -> None:
    """It has all privileges of the node's root, and nothing of /proc is masked."""
    pod = look(node, "mighty", container(privileged=True))
    log = told(node, pod)
    own = Path("/proc/self/status").read_text()
    (able,) = (line.split()[1] for line in own.splitlines() if line.startswith("CapBnd"))
    assert seen(log)["CapEff"] == able
    assert "/proc/sys" not in mounts(log)
    node.take_away("mighty")


def test_a_seccomp_file_of_the_nodes(node: TempoletNode) -> None:
    """From the folder seccomp below root-dir; a missing one keeps the container from starting, with a message."""
    profiles = node.root_dir / "seccomp" / "own"
    profiles.mkdir(parents=True, exist_ok=True)
    refuses = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refuses]}
    (profiles / "no-mkdir.json").write_text(json.dumps(profile))
    said = {"type": "Localhost", "localhostProfile": "own/no-mkdir.json"}
    pod = look(node, "filtered", container(command=f"mkdir /x 2>&1; echo made $?; {STAY}", seccompProfile=said))
    log = told(node, pod)
    assert "Operation not permitted" in log
    assert "made 1" in log
    node.take_away("filtered")
    lost = {"type": "Localhost", "localhostProfile": "own/lost.json"}
    node.apply(pod_manifest("lost", containers=[container(seccompProfile=lost)]))
    failed = node.until_pod("lost", lambda one: "lost.json" in one.message)
    assert failed.reason == "CreateContainerError"
    node.take_away("lost")


def test_nobody_runs_as_root_who_must_not(node: TempoletNode) -> None:
    """With the kubelet's reason and message; a numeric user makes it run."""
    node.apply(pod_manifest("root", containers=[container()], securityContext={"runAsNonRoot": True}))
    refused = node.until_pod("root", lambda one: one.reason == "CreateContainerConfigError")
    full = f'"{refused.name}_default({refused.uid})"'
    assert refused.message == (f"container has runAsNonRoot and image will run as root (pod: {full}, container: main)")
    assert not containers_of(node.containerd, refused.uid), "nothing was made"
    _, said = tempolet(node, "history", f"default/{refused.name}")
    assert "container has runAsNonRoot and image will run as root" in said
    _, said = tempolet(node, "explain", f"default/{refused.name}")
    assert "image will run as root" in said
    node.take_away("root")
    look(node, "somebody", securityContext={"runAsNonRoot": True, "runAsUser": 65534})
    node.take_away("somebody")


def test_an_image_with_a_user(node: TempoletNode, tmp_path: Path) -> None:
    """A number can be checked not to be root, a name cannot; the image's groups apply, unless the pod's policy is Strict."""
    numbered, named = (import_image_of(node.containerd, user, tmp_path) for user in (str(USER_ID), "app"))
    groups = {"supplementalGroups": [6000]}
    spec = {"image": numbered, "imagePullPolicy": "Never"}
    pod = look(node, "numbered", container() | spec, securityContext={"runAsNonRoot": True, **groups})
    status = seen(told(node, pod))
    assert status["Uid"].split()[0] == str(USER_ID)
    assert "6000" in status["Groups"].split()
    node.take_away("numbered")
    spec = {"image": named, "imagePullPolicy": "Never"}
    pod = look(node, "named", container() | spec, securityContext=groups)
    status = seen(told(node, pod))
    assert (status["Uid"].split()[0], status["Gid"].split()[0]) == (str(USER_ID), str(GROUP_ID))
    assert {str(OTHER_GROUP_ID), "6000"} <= set(status["Groups"].split())
    node.take_away("named")
    pod = look(node, "narrow", container() | spec, securityContext={**groups, "supplementalGroupsPolicy": "Strict"})
    assert str(OTHER_GROUP_ID) not in seen(told(node, pod))["Groups"].split()
    node.take_away("narrow")
    node.apply(pod_manifest("unknown", containers=[container() | spec], securityContext={"runAsNonRoot": True}))
    refused = node.until_pod("unknown", lambda one: one.reason == "CreateContainerConfigError")
    words = "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root"
    assert refused.message.startswith(words)
    node.take_away("unknown")


def test_a_container_that_starts_again_is_the_same_user(node: TempoletNode, tmp_path: Path) -> None:
    """CVE-2019-11245: with the image on the node, a kubelet once started it as root, if the pod says nothing of users."""
    image = {"image": import_image_of(node.containerd, str(USER_ID), tmp_path), "imagePullPolicy": "Never"}
    command = "id -u; echo told; exit 1"
    crashing = [container("silent", command) | image, container("strict", command, runAsNonRoot=True) | image]
    node.apply(pod_manifest("again", containers=crashing))

    def restarted(name: str, pod: PodSnapshot) -> bool:
        return any(one["restartCount"] for one in pod.status.get("containerStatuses", ()) if one["name"] == name)

    for name in ("silent", "strict"):
        pod = node.until_pod("again", partial(restarted, name))
        for file in ("0", "1"):
            assert until_logged(node, log_path(node, pod, name, file=file), "told")[0] == str(USER_ID)
    node.take_away("again")


def test_what_restricts_a_container_restricts_its_hooks(node: TempoletNode) -> None:
    """A preStart hook's command has the container's restrictions, in a container of its own."""
    own: dict[str, Any] = {"runAsUser": 4000, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    script = "[ $(id -u) = 4000 ] && ! touch /x && grep -q 'CapEff:.0000000000000000' /proc/self/status"
    hook = {"preStart.tempolet.dev/main": json.dumps({"exec": {"command": ["sh", "-c", script]}})}
    manifest = pod_manifest("hooked", containers=[container(**own)])
    manifest["metadata"]["annotations"] = hook
    node.apply(manifest)
    node.until_running("hooked")
    node.take_away("hooked")


def test_sysctls(node: TempoletNode) -> None:
    """Safe ones and those that the node allows are set in the pod only."""
    ours = Path("/proc/sys/kernel/msgmax").read_text()
    said = [{"name": "net.ipv4.ip_local_port_range", "value": "2000 3000"}, {"name": "kernel/msgmax", "value": "9999"}]
    shows = f"cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/kernel/msgmax; {STAY}"
    pod = look(node, "tuned", container(command=shows), securityContext={"sysctls": said})
    log = told(node, pod)
    assert "2000\t3000" in log
    assert "9999" in log
    assert Path("/proc/sys/kernel/msgmax").read_text() == ours
    node.take_away("tuned")


def test_a_pod_that_the_node_does_not_take(node: TempoletNode) -> None:
    """It is Failed with the kubelet's reason; nothing of it was created, and history and operator see why."""
    for name, context, reason, words in (
        (
            "unsafe",
            {"sysctls": [{"name": "kernel.sem", "value": "1"}]},
            "SysctlForbidden",
            'Pod was rejected: forbidden sysctl: "kernel.sem" not allowlisted',
        ),
        (
            "confined",
            {"appArmorProfile": {"type": "RuntimeDefault"}},
            "AppArmor",
            "Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host",
        ),
    ):
        node.apply(pod_manifest(name, securityContext=context))
        pod = node.until_pod(name, lambda one: one.phase == "Failed")
        assert (pod.reason, pod.message) == (reason, words)
        assert (pod.status["reason"], pod.status["message"]) == (reason, words)
        _, said = tempolet(node, "history", f"default/{pod.name}")
        assert words in said
        _, said = tempolet(node, "explain", f"default/{pod.name}")
        assert words in said
        assert not containers_of(node.containerd, pod.uid)
        node.take_away(name)


def test_processes_of_the_pod(node: TempoletNode) -> None:
    """With a shared namespace every container sees them, an ephemeral container's target may have exited, and messages are still read."""
    short = container("short", "echo bye > /dev/termination-log; exit 3")
    node.apply(
        pod_manifest(
            "shared",
            containers=[container("main", f"{STAY} # the very one"), short],
            shareProcessNamespace=True,
            restartPolicy="Never",
        )
    )
    shown = node.until_pod("shared", lambda one: "CONTAINER_EXITED" in str(one.containers.get("short")))
    (ended,) = (one for one in shown.status["containerStatuses"] if one["name"] == "short")
    assert (ended["state"]["terminated"]["exitCode"], ended["state"]["terminated"]["message"]) == (3, "bye\n")
    words = (f"default/{shown.name}", "--image", BUSYBOX, "--name", "looks", "--target", "short")
    code, said = tempolet(node, "debug", *words, "--", "sh", "-c", "cat /proc/1/cmdline; ps -o args; echo told")
    assert code == 0, said
    log = told(node, shown, "looks")
    assert "the very one" in log
    assert "pause" in log, "the sandbox's own process is the first"
    node.take_away("shared")


def test_namespaces_of_the_node(node: TempoletNode) -> None:
    """A pod with hostPID and hostIPC uses the node's."""
    names = ("pid", "ipc")
    shows = f"for one in {' '.join(names)}; do readlink /proc/self/ns/$one; done; {STAY}"
    pod = look(node, "host", container(command=shows), hostPID=True, hostIPC=True)
    log = told(node, pod)
    for one in names:
        assert str(Path(f"/proc/self/ns/{one}").readlink()) in log
    node.take_away("host")
    pod = look(node, "apart", container(command=shows))
    log = told(node, pod)
    for one in names:
        assert str(Path(f"/proc/self/ns/{one}").readlink()) not in log
    node.take_away("apart")
