"""Random nodes, plugins and pods: a seed makes the same case everywhere."""

from random import Random
from typing import Any, Final

Json = dict[str, Any]
RESOURCES: Final = ("example.com/a", "example.com/b")
UNKNOWN: Final = "example.com/unknown"
NAMES: Final = ("dev-1", "dev-2", "dev-3", "dev-4", "dev-5", "dev-6", "dev-10", "Ä <&> \"'\\")


def case(seed: int) -> Json:
    """Draw a node, what its plugins list, and pods that come and go."""
    random = Random(seed)
    nodes = random.choice(([0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 2]))
    names = {name: random.sample(NAMES, random.randint(0, len(NAMES))) for name in RESOURCES}
    pods: list[Json] = []
    first = RESOURCES[: random.choice((1, 2, 2))]
    steps: list[Json] = [_list(random, resource, names[resource], nodes) for resource in first]
    for number in range(random.randint(1, 6)):
        match random.choice(("admit", "admit", "admit", "again", "drop", "list", "gone")):
            case "list":
                resource = random.choice(RESOURCES)
                steps.append(_list(random, resource, names[resource], nodes))
            case "gone":
                steps.append({"do": "gone", "resource": random.choice(RESOURCES)})
            case "drop" if pods:
                steps.append({"do": "drop", "pod": pods.pop(random.randrange(len(pods)))})
            case "again" if pods:
                steps.append(_admit(random, random.choice(pods), nodes))
            case _:
                pods.append(_pod(random, f"uid-{number}"))
                steps.append(_admit(random, pods[-1], nodes))
    prefers = {name: random.choice((0, 0, 1)) for name in RESOURCES if random.random() < 0.5}
    answers = {name: _answer(random, name) for name in RESOURCES}
    return {"kind": "devices", "nodes": nodes, "prefers": prefers, "answers": answers, "steps": steps}


def _list(random: Random, resource: str, names: list[str], nodes: list[int]) -> Json:
    """List a resource; none of its devices ever vanishes, because the kubelet panics if a pod that has it is admitted again."""
    aligned = random.random() < 0.8
    devices = [
        {"id": name, "healthy": random.random() < 0.85, "nodes": _near(random, nodes) if aligned else []}
        for name in names
    ]
    return {"do": "list", "resource": resource, "devices": devices}


def _near(random: Random, nodes: list[int]) -> list[int]:
    if random.random() < 0.1:
        return []
    near = random.sample(nodes, random.choice((1, 1, 1, min(2, len(nodes)))))
    return [*near, *random.choice(((), (), (), (), (7,)))]


def _pod(random: Random, uid: str) -> Json:
    init = [_container(random, f"init-{number}") for number in range(random.choice((0, 0, 1, 2)))]
    for one in init:
        if random.random() < 0.3:
            one["restartPolicy"] = "Always"
    containers = [_container(random, f"app-{number}") for number in range(random.choice((1, 1, 2)))]
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "spec": {"initContainers": init, "containers": containers},
    }


def _container(random: Random, name: str) -> Json:
    limits: Json = {}
    if random.random() < 0.85:
        least = (
            0 if name.startswith("app") else 1
        )  # an init container that wants none may get hints of its pod's first admission
        limits[random.choice(RESOURCES)] = str(random.choice((least, 1, 1, 1, 2, 2, 3, 4)))
    if random.random() < 0.1:
        limits[RESOURCES[1]] = "1"
    if random.random() < 0.1:
        limits[UNKNOWN] = "1"
    return {"name": name, "resources": {"limits": limits, "requests": limits}}


def _admit(random: Random, pod: Json, nodes: list[int]) -> Json:
    names = [one["name"] for one in (*pod["spec"]["initContainers"], *pod["spec"]["containers"])]
    affinities = {
        name: sorted(random.sample(nodes, random.randint(1, len(nodes)))) for name in names if random.random() < 0.7
    }
    return {"do": "admit", "pod": pod, "affinities": affinities}


def _answer(random: Random, resource: str) -> Json:
    """Draw what a plugin answers; names are its own, so that the kubelet's order of plugins does not matter."""
    if random.random() < 0.2:
        return {}
    own = resource[-1]
    return {
        "envs": {f"{own.upper()}_{number}": str(random.random()) for number in range(random.randint(0, 2))},
        "annotations": {f"{own}-{number}": "x" for number in range(random.randint(0, 1))},
        "mounts": [
            {"container_path": f"/{own}/{random.randint(0, 2)}", "host_path": f"/h/{number}", "read_only": number == 1}
            for number in range(random.randint(0, 3))
        ],
        "devices": [
            {"container_path": f"/dev/{own}{random.randint(0, 2)}", "host_path": f"/d/{number}", "permissions": "mrw"}
            for number in range(random.randint(0, 3))
        ],
        "cdi_devices": [{"name": f"{resource}={random.randint(0, 1)}"} for _ in range(random.randint(0, 3))],
    }
