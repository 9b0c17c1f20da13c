"""Edits of a container's image, and the pod's situation after one, for the tests of definitions."""

import copy
from typing import Any

from proto.kubernetes.container_hash import container_hash
from proto.temporal.images import ImageFacts
from proto.temporal.pod import PodJson
from proto.temporal.signals import PodListed
from tests.workflows.decide.situations import IMAGE, KEY, Context, container, pod, situation
from workflows.decide.keys import image_key
from workflows.decide.record.signals import apply_signal
from workflows.decide.situation import Situation

NEW = "busybox:2"
OLD_HASH, NEW_HASH = container_hash("web", IMAGE), container_hash("web", NEW)
SIDE = container_hash("side", IMAGE)


def with_image(source: PodJson, name: str = "web", image: str = NEW) -> PodJson:
    """Change one container's image."""
    changed = copy.deepcopy(source)
    for one in (*changed["spec"].get("initContainers", ()), *changed["spec"]["containers"]):
        if one["name"] == name:
            one["image"] = image
    return changed


def relisted(here: Situation, source: PodJson) -> Situation:
    """Return the pod's situation after its source listed it with an edit."""
    taken = apply_signal(here, PodListed("file", pod=source, in_place=True))
    assert taken is not None
    spec = situation(taken).spec
    return Situation(KEY, spec, taken, here.observed, here.now, here.settings, here.behaviour, here.busy)


def after_edit(
    source: PodJson, known: dict[str, Any], *, name: str = "web", present: bool = True, **context: Any
) -> Situation:
    """Return the pod's situation after a container's image was edited; by default the new image is present."""
    here = relisted(situation(source, Context(**context), **known), with_image(source, name))
    if present:
        here.observed.images[image_key(NEW, "IfNotPresent")] = ImageFacts("sha256:2", pulled=True)
    return here


def one(policy: str = "Always", **more: Any) -> PodJson:
    """Build a pod with one container."""
    return pod(restartPolicy=policy, containers=[container("web", **more)])
