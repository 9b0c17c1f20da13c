"""Random pods and what they use, as the API and /stats/summary write them.

Amounts are drawn from few values, so that pods are often equal, and often use just what they request.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

Json = dict[str, Any]

MOST_PODS: Final = 12
"""Above that Go's sort is not stable."""
CPU: Final = ("100m", "250m", "1", "0.5", "1500m", "2")
BYTES: Final = (
    "0",
    "1",
    "100m",
    "1000",
    "1k",
    "1Ki",
    "1024",
    "2Ki",
    "1500",
    "3e3",
    "1Mi",
    "1.5Mi",
    "64Mi",
    "64M",
    "1Gi",
)
USED: Final = (
    0,
    1,
    999,
    1000,
    1024,
    1025,
    1500,
    2048,
    3000,
    1 << 20,
    3 << 19,
    64 << 20,
    (64 << 20) + 1,
    1 << 30,
    5 << 30,
)
COUNTS: Final = (0, 1, 2, 1000, 1024, 5000, 100_000)
PRIORITIES: Final = (None, None, 0, 0, 5, -10, 1_000_000_000, 1_999_999_999, 2_000_000_000, 2_000_001_000)
GRACES: Final = (None, 0, 1, 10, 30, 3600)
RESOURCES: Final = (("cpu", CPU), ("memory", BYTES), ("ephemeral-storage", BYTES))


def pod(random: Random, name: str) -> Json:
    """Draw a pod."""
    spec: Json = {"containers": [container(random, f"c{number}") for number in range(random.choice((1, 1, 1, 2, 3)))]}
    if random.random() < 0.2:
        spec["initContainers"] = [init_container(random, f"i{number}") for number in range(random.choice((1, 2)))]
    if random.random() < 0.1:
        spec["overhead"] = amounts(random, 0.5)
    if random.random() < 0.15:
        spec["resources"] = pod_level(random)
    if random.random() < 0.4:
        spec["volumes"] = [volume(random, f"v{number}") for number in range(random.choice((1, 2, 3)))]
    if random.random() < 0.1:
        spec["tolerations"] = [toleration(random)]
    for key, value in (
        ("priority", random.choice(PRIORITIES)),
        ("terminationGracePeriodSeconds", random.choice(GRACES)),
    ):
        if value is not None:
            spec[key] = value
    annotations = random.choice(
        ({}, {}, {}, {}, {}, {}, source("api"), source("file"), {"kubernetes.io/config.mirror": "1"})
    )
    return {"metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": dict(annotations)}, "spec": spec}


def source(of: str) -> dict[str, str]:
    """Return the annotation of a source."""
    return {"kubernetes.io/config.source": of}


def pods(random: Random) -> list[Json]:
    """Draw a node's pods."""
    return [pod(random, f"p{number}") for number in range(random.randint(0, MOST_PODS))]


def container(random: Random, name: str) -> Json:
    """Draw a container: of all classes of service."""
    requests = amounts(random, 0.5)
    limits = random.choice((dict(requests), amounts(random, 0.3), {}))
    return {"name": name, "resources": {"requests": requests, "limits": limits}}


def init_container(random: Random, name: str) -> Json:
    """Draw an init container or a sidecar."""
    return container(random, name) | random.choice(({}, {"restartPolicy": "Always"}))


def amounts(random: Random, often: float) -> dict[str, str]:
    """Draw a resource list."""
    found = {name: random.choice(values) for name, values in RESOURCES if random.random() < often}
    if random.random() < 0.05:
        found["example.com/gpu"] = random.choice(("1", "2"))
    return found


def pod_level(random: Random) -> Json:
    """Draw requests and limits of a pod's own."""
    found: Json = {}
    for kind in ("requests", "limits"):
        some = {name: random.choice(values) for name, values in RESOURCES[:2] if random.random() < 0.6}
        if some or random.random() < 0.2:
            found[kind] = some
    return found


def volume(random: Random, name: str) -> Json:
    """Draw a volume; one in memory has no limit, see the README of the core."""
    limit = {"sizeLimit": random.choice(BYTES)} if random.random() < 0.5 else {}
    kinds: tuple[Json, ...] = (
        {"emptyDir": limit},
        {"emptyDir": limit},
        {"emptyDir": {"medium": "Memory"}},
        {"configMap": {"name": "m"}},
        {"hostPath": {"path": "/"}},
        {"secret": {"secretName": "s"}},
    )
    return {"name": name} | random.choice(kinds)


def toleration(random: Random) -> Json:
    """Draw a toleration; a few tolerate short memory."""
    found: Json = {}
    if random.random() < 0.8:
        found["key"] = random.choice(("node.kubernetes.io/memory-pressure", "node.kubernetes.io/disk-pressure"))
    found["operator"] = random.choice(("Exists", "Equal", "")) if "key" in found else "Exists"
    if random.random() < 0.5:
        found["effect"] = random.choice(("NoSchedule", "NoExecute"))
    if found["operator"] != "Exists" and random.random() < 0.3:
        found["value"] = "x"
    return found


def stats(random: Random, of: list[Json]) -> list[Json]:
    """Draw what pods use; nothing is known of some."""
    return [pod_stats(random, one) for one in of if random.random() < 0.9]


def pod_stats(random: Random, of: Mapping[str, Any]) -> Json:
    """Draw what a pod uses."""
    spec, metadata = of["spec"], of["metadata"]
    names = [one["name"] for one in (*spec["containers"], *spec.get("initContainers", ())) if random.random() < 0.9]
    random.shuffle(names)
    found: Json = {
        "podRef": {key: metadata[key] for key in ("name", "namespace", "uid")},
        "containers": [container_stats(random, name) for name in (*names, *random.choice(((), ("debugger",))))],
        "volume": [
            {"name": one["name"]} | files(random, 1) for one in spec.get("volumes", ()) if random.random() < 0.9
        ],
    }
    if random.random() < 0.95:
        found["memory"] = memory(random)
    if random.random() < 0.9:
        found["process_stats"] = {"process_count": random.choice(COUNTS)}
    if random.random() < 0.9:
        found["ephemeral-storage"] = files(random)
    return found


def container_stats(random: Random, name: str) -> Json:
    """Draw what a container uses."""
    found: Json = {"name": name}
    if random.random() < 0.9:
        found["memory"] = memory(random)
    for kind in ("rootfs", "logs"):
        if random.random() < 0.9:
            found[kind] = files(random)
    return found


def memory(random: Random) -> Json:
    """Draw a working set."""
    return {"workingSetBytes": random.choice(USED)} if random.random() < 0.97 else {}


def files(random: Random, known: float = 0.95) -> Json:
    """Draw bytes and inodes."""
    found = {"usedBytes": random.choice(USED)} if random.random() < known else {}
    return found | ({"inodesUsed": random.choice(COUNTS)} if random.random() < 0.95 else {})
