"""Random edits of a pod by its source: some are applied in place, others need a new pod."""

import copy
from collections.abc import Callable
from random import Random
from typing import Final

from proto.temporal.pod import PodJson
from tests.replay.lives.drawn_pod import GATE, IMAGES, mount_one


def edit(rng: Random, pod: PodJson) -> PodJson:
    """Edit one or two fields of a pod."""
    edited = copy.deepcopy(pod)
    for change in rng.sample(CHANGES, rng.choice([1, 1, 2])):
        change(rng, edited)
    edited["metadata"]["generation"] = edited["metadata"].get("generation", 1) + 1
    return edited


def resize(rng: Random, pod: PodJson) -> PodJson:
    """Change only the containers' resources, if any has some."""
    edited = copy.deepcopy(pod)
    limited = [one for one in edited["spec"]["containers"] if "memory" in one.get("resources", {}).get("limits", {})]
    if limited:
        rng.choice(limited)["resources"]["limits"]["memory"] = rng.choice(["96Mi", "192Mi", "256Mi", "900Gi"])
        edited["metadata"]["generation"] = edited["metadata"].get("generation", 1) + 1
    return edited


def _label(rng: Random, pod: PodJson) -> None:
    pod["metadata"]["labels"] = {"app": rng.choice("abc")}


def _deadline(rng: Random, pod: PodJson) -> None:
    pod["spec"]["activeDeadlineSeconds"] = rng.choice([1, 3, 60, 400])


def _toleration(_: Random, pod: PodJson) -> None:
    pod["spec"].setdefault("tolerations", []).append({"key": "b", "operator": "Exists"})


def _image(rng: Random, pod: PodJson) -> None:
    spec = pod["spec"]
    rng.choice([*spec.get("initContainers", ()), *spec["containers"]])["image"] = rng.choice(IMAGES)


def _resources(rng: Random, pod: PodJson) -> None:
    spec = pod["spec"]
    everyone = [*spec.get("initContainers", ()), *spec["containers"]]
    one = rng.choice([one for one in everyone if "resources" in one] or everyone)
    limits = one.setdefault("resources", {}).setdefault("limits", {})
    if rng.random() < 0.7:
        limits["memory"] = rng.choice(["64Mi", "96Mi", "96Mi", "256Mi", "256Mi", "900Gi"])
    if rng.random() < 0.6:
        limits["cpu"] = rng.choice(["100m", "400m", "400m", "900"])


def _ephemeral(rng: Random, pod: PodJson) -> None:
    there = pod["spec"].setdefault("ephemeralContainers", [])
    look = {"name": f"listed-{len(there)}", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}
    look |= mount_one(rng, pod)
    there.append(look | ({"targetContainerName": "main-0"} if rng.random() < 0.5 else {}))


def _command(rng: Random, pod: PodJson) -> None:
    pod["spec"]["containers"][0]["command"] = ["/bin/app", str(rng.randint(1, 9))]


def _gate(_: Random, pod: PodJson) -> None:
    pod["spec"]["readinessGates"] = [{"conditionType": GATE}]


CHANGES: Final[tuple[Callable[[Random, PodJson], None], ...]] = (
    _label,
    _deadline,
    _toleration,
    _image,
    _image,
    _resources,
    _resources,
    _ephemeral,
    _command,
    _gate,
)
