"""A random pod, drawn from a seed: defaulted, as a source lists it after admission."""

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from proto.temporal.pod import PodJson

Container = dict[str, Any]

GATE: Final = "example.com/lb"
IMAGES: Final = ("busybox:1", "busybox:2", "registry.example/app:3")
MISSING_IMAGE: Final = "registry.example/missing:404"
"""Pulling it always fails."""
POLICIES: Final = (*("IfNotPresent",) * 8, *("Always",) * 3, "Never")
PROBE: Final = {"tcpSocket": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 1}
RULES: Final[tuple[list[PodJson], ...]] = (
    [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
    [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1, 137]}}],
    [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0, 1]}}],
)
VOLUMES: Final[tuple[PodJson, ...]] = (
    {"name": "data", "emptyDir": {"sizeLimit": "1Mi"}},
    {"name": "fast", "emptyDir": {"medium": "Memory"}},
    {"name": "app", "configMap": {"name": "app"}},
    {"name": "key", "secret": {"secretName": "key", "optional": True}},
    {"name": "about", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    {"name": "host", "hostPath": {"path": "/srv", "type": "Directory"}},
    {"name": "tool", "image": {"reference": "registry.example/tool:1", "pullPolicy": "IfNotPresent"}},
    {"name": "scratch", "csi": {"driver": "csi.example.com", "volumeAttributes": {"size": "1"}}},
    {
        "name": "all",
        "projected": {
            "sources": [
                {"configMap": {"name": "app"}},
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
            ]
        },
    },
)
SECURITY: Final[tuple[PodJson, ...]] = (
    *({},) * 24,
    {"fsGroup": 1000, "runAsUser": 1000},
    {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]},
    {"sysctls": [{"name": "kernel.sem", "value": "1"}]},  # unsafe: the node rejects the pod
    {"supplementalGroups": [7], "supplementalGroupsPolicy": "Strict"},
)


def draw_pod(rng: Random) -> PodJson:
    """Draw a pod."""
    first = [_container(rng, f"init-{number}") for number in range(rng.choice([0, 0, 0, 1, 1, 2, 3]))]
    for one in first:
        if rng.random() < 0.45:
            one["restartPolicy"] = "Always"
    regular = [_container(rng, f"main-{number}") for number in range(rng.choice([1, 1, 1, 2, 2, 3]))]
    spec: PodJson = {
        "restartPolicy": rng.choice([*["Always"] * 6, "OnFailure", "OnFailure", "Never"]),
        "terminationGracePeriodSeconds": rng.choice([1, 1, 2, 2, 3, 30]),
        "containers": regular,
    }
    if first:
        spec["initContainers"] = first
    _give_rules(rng, regular)
    lasting = [*regular, *(one for one in first if "restartPolicy" in one)]
    _give_probes(rng, lasting)
    _give_hooks(rng, lasting)
    _give_resources(rng, spec)
    _give_volumes(rng, spec)
    _give_claims(rng, spec)
    _give_limits(rng, spec)
    return {"metadata": _metadata(rng, [*first, *regular]), "spec": spec}


def _container(rng: Random, name: str) -> Container:
    image = MISSING_IMAGE if rng.random() < 0.015 else rng.choice(IMAGES)
    one: Container = {"name": name, "image": image, "imagePullPolicy": rng.choice(POLICIES)}
    if rng.random() < 0.3:
        one["command"] = ["/bin/app", "--serve"]
    if rng.random() < 0.25:
        one["ports"] = [{"name": "http", "containerPort": 80, "protocol": "TCP"}]
    if rng.random() < 0.25:
        one["env"] = [
            {"name": "A", "value": "b"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": rng.choice(["status.podIP", "status.hostIP"])}}},
        ]
    return one


def _metadata(rng: Random, everyone: Iterable[Container]) -> PodJson:
    annotations: dict[str, str] = {}
    if rng.random() < 0.15:
        for one in everyone:
            for hook in ("preStart", "postStop"):
                if rng.random() < 0.5:
                    annotations[f"{hook}.tempolet.dev/{one['name']}"] = rng.choice(
                        [
                            '{"tcpSocket": {"port": 80}}',
                            '{"exec": {"command": ["true"]}, "retry": {"maxAttempts": 3, "initialSeconds": 1}}',
                            '{"exec": {"command": ["true"]}, "image": "busybox:2", "timeoutSeconds": 2}',
                        ]
                    )
    if rng.random() < 0.05:
        annotations["preStop.tempolet.dev/main-0"] = '{"timeoutSeconds": 2, "retry": {"maxAttempts": 2}}'
    meta: PodJson = {"name": "web", "namespace": "default", "uid": f"{rng.getrandbits(128):032x}"}
    if annotations:
        meta["annotations"] = annotations
    if rng.random() < 0.4:
        meta["labels"] = {"app": "web"}
    return meta


def _give_rules(rng: Random, regular: list[Container]) -> None:
    if rng.random() < 0.25:
        one = rng.choice(regular)
        one["restartPolicy"] = rng.choice(["Always", "OnFailure", "Never"])
        if rng.random() < 0.75:
            one["restartPolicyRules"] = rng.choice(RULES)


def _give_probes(rng: Random, lasting: list[Container]) -> None:
    if rng.random() < 0.5:
        for one in lasting:
            for field in ("startupProbe", "livenessProbe", "readinessProbe"):
                if rng.random() < 0.5:
                    one[field] = dict(PROBE)
            if "livenessProbe" in one and rng.random() < 0.2:
                one["livenessProbe"]["terminationGracePeriodSeconds"] = 1


def _give_hooks(rng: Random, lasting: list[Container]) -> None:
    if rng.random() < 0.3:
        for one in lasting:
            hooks: PodJson = {}
            if rng.random() < 0.5:
                hooks["postStart"] = rng.choice([{"sleep": {"seconds": 1}}, {"exec": {"command": ["true"]}}])
            if rng.random() < 0.6:
                hooks["preStop"] = rng.choice([{"sleep": {"seconds": 1}}, {"httpGet": {"port": "http", "path": "/"}}])
            if hooks:
                one["lifecycle"] = hooks


def _give_resources(rng: Random, spec: PodJson) -> None:
    if rng.random() < 0.5:
        for one in (*spec.get("initContainers", ()), *spec["containers"]):
            one["resources"] = {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"cpu": "500m", "memory": "128Mi"},
            }
            if rng.random() < 0.3 and spec["restartPolicy"] != "Never":
                one["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    if rng.random() < 0.1:
        spec["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    elif rng.random() < 0.15:
        spec["containers"][0].setdefault("resources", {}).setdefault("limits", {})["ephemeral-storage"] = "1Mi"


def _give_volumes(rng: Random, spec: PodJson) -> None:
    if rng.random() < 0.45:
        spec["volumes"] = rng.sample(VOLUMES, rng.randint(1, 4))
        used = [volume for volume in spec["volumes"] if rng.random() < 0.75]
        for one in (*spec.get("initContainers", ()), *spec["containers"]):
            mounts = [
                {"name": volume["name"], "mountPath": f"/mnt/{volume['name']}"} for volume in used if rng.random() < 0.7
            ]
            if mounts:
                one["volumeMounts"] = mounts


def _give_claims(rng: Random, spec: PodJson) -> None:
    if rng.random() < 0.1:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu-1"}]
        for one in spec["containers"]:
            one["resources"] = {**one.get("resources", {}), "claims": [{"name": "gpu"}]}


def mount_one(rng: Random, pod: PodJson) -> Container:
    """Draw the mounts of an ephemeral container: often a volume of the pod that no other container may use."""
    volumes = pod["spec"].get("volumes", ())
    if not volumes or rng.random() < 0.3:
        return {}
    name = rng.choice(volumes)["name"]
    return {"volumeMounts": [{"name": name, "mountPath": f"/mnt/{name}"}]}


def _give_limits(rng: Random, spec: PodJson) -> None:
    if rng.random() < 0.1:
        spec["activeDeadlineSeconds"] = rng.choice([1, 2, 4])
    if rng.random() < 0.2:
        spec["readinessGates"] = [{"conditionType": GATE}]
    if security := rng.choice(SECURITY):
        spec["securityContext"] = security
    if rng.random() < 0.1:
        spec["hostNetwork"] = True
    if rng.random() < 0.1:
        spec["imagePullSecrets"] = [{"name": "pull"}]
    if rng.random() < 0.05:
        spec["priority"], spec["priorityClassName"] = 2_000_001_000, "system-node-critical"
    if rng.random() < 0.1:
        spec["tolerations"] = [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]
