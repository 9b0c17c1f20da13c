"""The shapes of the pods of a scenario on real containerd, and what is expected of each once nothing happens any more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.node.tempolet_node import BUSYBOX, pod_manifest

SERVE: Final = "trap 'exit 0' TERM; sleep 3600 & wait"
"""Ends at once on SIGTERM."""
CRASH_ONCE: Final = f"[ -e /data/crashed ] || {{ sleep 1; touch /data/crashed; exit 7; }}; {SERVE}"
"""It runs for a second first: if the caller of its start is killed, containerd ends it at once with a StartError, which is no crash."""
PRE_STOP: Final = "echo preStop"
POST_START: Final = "echo postStart"
BYSTANDER: Final = "bystander"
CLAIMED: Final = "claimed"
"""The shape of `with_claim`, which needs a CSI driver."""
DATA: Final = {"name": "data", "mountPath": "/data"}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a pod comes to."""

    name: str
    phase: str = "Running"
    restarts: int = 0
    order: tuple[str, ...] = ("main",)
    """Its containers, in the order of their first starts; those that may start in any order are the last."""


def container(name: str, command: str = SERVE, **more: Any) -> dict[str, Any]:
    """Build a container."""
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", command], **more}


def _exec(command: str) -> dict[str, Any]:
    return {"exec": {"command": ["sh", "-c", command]}}


def one(name: str) -> tuple[dict[str, Any], Expected]:
    """One container."""
    return pod_manifest(name, SERVE), Expected(name)


def with_init_and_sidecar(name: str) -> tuple[dict[str, Any], Expected]:
    """An init container, a sidecar, another init container, and one that lasts."""
    first = [container("first", "true"), container("proxy", restartPolicy="Always"), container("second", "true")]
    return pod_manifest(name, SERVE, initContainers=first), Expected(name, order=("first", "proxy", "second", "main"))


def with_hooks(name: str) -> tuple[dict[str, Any], Expected]:
    """Both lifecycle hooks."""
    main = container("main", lifecycle={"postStart": _exec(POST_START), "preStop": _exec(PRE_STOP)})
    return pod_manifest(name, containers=[main], terminationGracePeriodSeconds=5), Expected(name)


def with_volumes(name: str) -> tuple[dict[str, Any], Expected]:
    """Volumes that are mounts, and files."""
    volumes = [
        {"name": "data", "emptyDir": {"medium": "Memory"}},
        {"name": "disk", "emptyDir": {}},
        {"name": "about", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    mounts = [DATA, {"name": "disk", "mountPath": "/disk"}, {"name": "about", "mountPath": "/about"}]
    main = container("main", f"test -s /about/name && {SERVE}", volumeMounts=mounts)
    return pod_manifest(name, containers=[main], volumes=volumes), Expected(name)


def with_probes(name: str) -> tuple[dict[str, Any], Expected]:
    """A readiness probe."""
    probe = {**_exec("true"), "periodSeconds": 2, "timeoutSeconds": 30}
    return pod_manifest(name, containers=[container("main", readinessProbe=probe)]), Expected(name)


def that_crashes(name: str) -> tuple[dict[str, Any], Expected]:
    """It crashes once."""
    main = container("main", CRASH_ONCE, volumeMounts=[DATA])
    volumes = [{"name": "data", "emptyDir": {}}]
    return pod_manifest(name, containers=[main], volumes=volumes), Expected(name, restarts=1)


def that_finishes(name: str) -> tuple[dict[str, Any], Expected]:
    """It ends with success, and is never restarted."""
    return pod_manifest(name, "true", restartPolicy="Never"), Expected(name, "Succeeded")


def with_claim(name: str) -> tuple[dict[str, Any], Expected]:
    """A volume of a CSI driver: the claim has the pod's name."""
    main = container("main", f"grep -q /data /proc/mounts && {SERVE}", volumeMounts=[DATA])
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return pod_manifest(name, containers=[main], volumes=volumes), Expected(name)


SHAPES: Final[dict[str, Callable[[str], tuple[dict[str, Any], Expected]]]] = {
    "one": one,
    "first": with_init_and_sidecar,
    "hooks": with_hooks,
    "volumes": with_volumes,
    "probes": with_probes,
    "crashes": that_crashes,
    "finishes": that_finishes,
}
