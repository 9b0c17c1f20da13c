"""Does a container get the environment that the kubelet would give it, and does it wait visibly for missing objects?"""

import json
from typing import Any

from proto.pod_snapshot import PodSnapshot
from tests.node.kept_objects import put_object
from tests.node.operating import history
from tests.node.pod_story import history_text, log_path, until_logged
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest

SECRET = "s3cr3t-of-the-environment-test"
PRINT = "tr '\\0' '\\n' </proc/1/environ; echo end; sleep 3600"
"""The shell's own `env` leaves out names with dots."""


def variable(name: str, **source: Any) -> dict[str, Any]:
    """Build a variable with a valueFrom."""
    return {"name": name, "valueFrom": source}


def field(name: str, path: str) -> dict[str, Any]:
    """Build a variable with a fieldRef."""
    return variable(name, fieldRef={"fieldPath": path})


def told(node: TempoletNode, snapshot: PodSnapshot, container: str = "main") -> dict[str, str]:
    """Read the environment that a container has printed, one variable per line, up to a line `end`."""
    lines = until_logged(node, log_path(node, snapshot, container), "end")
    return dict(line.partition("=")[::2] for line in lines if "=" in line)


def printing(name: str, env: list[dict[str, Any]], **container: Any) -> dict[str, Any]:
    """Build a pod that prints its environment and keeps running."""
    main = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", PRINT], "env": env}
    return pod_manifest(name, containers=[main | container])


def test_a_pod_is_told_of_itself_and_of_its_node(node: TempoletNode) -> None:
    """Fields and resources; without a limit, the node's own capacity."""
    env = [
        field("NAME", "metadata.name"),
        field("SPACE", "metadata.namespace"),
        field("POD_UID", "metadata.uid"),
        field("APP", "metadata.labels['app']"),
        field("NOTE", "metadata.annotations['example.com/note']"),
        field("NODE", "spec.nodeName"),
        field("HOST_IP", "status.hostIP"),
        field("POD_IP", "status.podIP"),
        field("POD_IPS", "status.podIPs"),
        variable("CPU", resourceFieldRef={"resource": "limits.cpu"}),
        variable("CPU_MILLI", resourceFieldRef={"resource": "requests.cpu", "divisor": "1m"}),
        variable("MEMORY", resourceFieldRef={"resource": "limits.memory", "divisor": "1Mi"}),
        variable("DISK", resourceFieldRef={"resource": "limits.ephemeral-storage"}),
        {"name": "URL", "value": "http://$(POD_IP)/$$(POD_IP)/$(UNKNOWN)"},
    ]
    resources = {"requests": {"cpu": "25m"}, "limits": {"memory": "64Mi"}}
    manifest = printing("told", env, resources=resources)
    manifest["metadata"] |= {"labels": {"app": "shop"}, "annotations": {"example.com/note": "a b"}}
    node.apply(manifest)
    snapshot = node.until_running("told")
    found = told(node, snapshot)
    ip = snapshot.status["podIP"]
    assert {name: found[name] for name in ("NAME", "SPACE", "POD_UID", "APP", "NOTE", "NODE")} == {
        "NAME": snapshot.name,
        "SPACE": "default",
        "POD_UID": snapshot.uid,
        "APP": "shop",
        "NOTE": "a b",
        "NODE": node.name,
    }
    assert (found["POD_IP"], found["POD_IPS"], found["HOST_IP"]) == (ip, ip, snapshot.status["hostIP"])
    assert (found["CPU_MILLI"], found["MEMORY"]) == ("25", "64")
    assert int(found["CPU"]) >= 1
    assert int(found["DISK"]) > 1 << 20
    assert found["URL"] == f"http://{ip}/$(POD_IP)/$(UNKNOWN)"
    node.remove("told")


def test_objects_bring_variables(node: TempoletNode) -> None:
    """Single keys, and all keys with a prefix; env overrides envFrom; optional objects may be missing."""
    put_object(node, "configmaps", "env-conf", data={"color": "blue", "size": "big", "my.key": "dotted"})
    put_object(node, "secrets", "env-token", stringData={"password": SECRET})
    env = [
        variable("COLOR", configMapKeyRef={"name": "env-conf", "key": "color"}),
        variable("PASSWORD", secretKeyRef={"name": "env-token", "key": "password"}),
        variable("MAYBE", secretKeyRef={"name": "nowhere", "key": "password", "optional": True}),
        variable("PERHAPS", configMapKeyRef={"name": "env-conf", "key": "none", "optional": True}),
        {"name": "C_size", "value": "own"},
        {"name": "DSN", "value": "db://$(PASSWORD)@host"},
    ]
    sources = [
        {"prefix": "C_", "configMapRef": {"name": "env-conf"}},
        {"secretRef": {"name": "env-token"}},
        {"secretRef": {"name": "nowhere", "optional": True}},
    ]
    node.apply(printing("objects", env, envFrom=sources))
    found = told(node, node.until_running("objects"))
    assert (found["COLOR"], found["PASSWORD"], found["password"]) == ("blue", SECRET, SECRET)
    assert (found["C_color"], found["C_size"], found["C_my.key"]) == ("blue", "own", "dotted")
    assert found["DSN"] == f"db://{SECRET}@host"
    assert not {"MAYBE", "PERHAPS"} & found.keys()
    node.remove("objects")


def test_a_container_waits_for_a_key_and_starts_when_it_is_there(node: TempoletNode) -> None:
    """With the kubelet's message, first for the object and then for its key; the pod's other container runs meanwhile."""
    waits = {
        "name": "waits",
        "image": BUSYBOX,
        "command": ["sh", "-c", PRINT],
        "env": [variable("LATE", configMapKeyRef={"name": "late-conf", "key": "late"})],
    }
    runs = {"name": "runs", "image": BUSYBOX, "command": ["sleep", "3600"]}
    node.apply(pod_manifest("late", containers=[waits, runs]))

    def waiting(snapshot: PodSnapshot, words: str) -> bool:
        by_name = {one["name"]: one for one in snapshot.status["containerStatuses"]}
        state = by_name["waits"].get("state", {}).get("waiting", {})
        held = state.get("reason") == "CreateContainerConfigError" and words in state.get("message", "")
        return held and "running" in by_name["runs"].get("state", {})

    node.until_pod("late", lambda one: waiting(one, 'configmap "late-conf" not found'), "waiting for the object")
    put_object(node, "configmaps", "late-conf", data={"other": "1"})
    words = "couldn't find key late in ConfigMap default/late-conf"
    snapshot = node.until_pod("late", lambda one: waiting(one, words), "waiting for the key")
    assert history(node, snapshot).count("CreateContainerConfigError") >= 1
    put_object(node, "configmaps", "late-conf", data={"late": "came"})
    snapshot = node.until_pod("late", lambda one: one.ready, "late running")
    assert told(node, snapshot, "waits")["LATE"] == "came"
    assert snapshot.restarts == 0
    node.remove("late")


def test_a_file_of_an_init_container_brings_variables(node: TempoletNode) -> None:
    """It is read when the container starts, which need not mount the volume."""
    mount = [{"name": "shared", "mountPath": "/shared"}]
    write = "printf \"A='one'\\nB='two\\nlines'\\n\" >/shared/env"
    init = {"name": "writes", "image": BUSYBOX, "command": ["sh", "-c", write], "volumeMounts": mount}
    env = [
        variable(name, fileKeyRef={"volumeName": "shared", "path": "env", "key": name, "optional": name == "C"})
        for name in ("A", "B", "C")
    ]
    manifest = printing("from-file", env)
    manifest["spec"] |= {"initContainers": [init], "volumes": [{"name": "shared", "emptyDir": {}}]}
    node.apply(manifest)
    found = told(node, node.until_running("from-file"))
    assert (found["A"], found["B"]) == ("one", "two")
    assert "C" not in found
    node.remove("from-file")


def test_a_command_that_holds_a_secret_is_not_quoted(node: TempoletNode) -> None:
    """If the runtime cannot start it, it quotes the command: history and status show the reference instead."""
    put_object(node, "secrets", "env-command", stringData={"program": SECRET})
    env = [variable("PROGRAM", secretKeyRef={"name": "env-command", "key": "program"})]
    node.apply(printing("quoted", env, command=["$(PROGRAM)"]))
    snapshot = node.until_pod("quoted", lambda one: one.restarts >= 1, "restarted")
    shown = json.dumps(snapshot.status)
    assert "$(PROGRAM)" in shown
    for text in (shown, history(node, snapshot), history_text(node, snapshot), node.log("worker"), node.log("poller")):
        assert SECRET not in text
    node.remove("quoted")
