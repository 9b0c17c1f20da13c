"""Which containers run with an outdated definition: an edit changed their image.

Used when an edit is applied (`record/signals.py`) and whenever an instance is seen (`instances`). A live instance of an
older definition is outdated: it is stopped and restarted whatever its restartPolicy, and its back-off is reset, as with
changed resources (pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions, containerChanged; helpers.go
GetBackoffKey).

An init container that is not a sidecar is left to end (kuberuntime_container.go computeInitContainerActions).
"""

from typing import Any

from proto.kubernetes.container_hash import container_hash
from proto.temporal.activities.requests import StopContainer
from proto.temporal.hooks import Hook
from proto.temporal.images import ImageFacts
from proto.temporal.pod import ContainerFacts, ContainerState, Observed, PodJson
from workflows.decide.containers.init_containers import ends_by_itself
from workflows.decide.keys import container_key, hook_key, image_key
from workflows.decide.situation import Situation


def definition_seen(situation: Situation, name: str, facts: ContainerFacts) -> None:
    """Record whether an instance that was seen is outdated."""
    for one in situation.all_containers:
        if one.name == name and facts.hash:
            mark_outdated(situation, name, facts, container_hash(name, one.image or ""))


def redefine(situation: Situation, pod: PodJson) -> None:
    """Record what an edited pod changes about its containers and images."""
    observed, source = situation.observed, situation.source
    both = list(zip(containers_of(source), containers_of(pod), strict=True))
    for before, after in both:
        name, image = after["name"], after["image"]
        facts = observed.containers.get(name)
        if facts is None or not resets_backoff(before, after):
            continue
        facts.hash = facts.hash or container_hash(
            name, before["image"]
        )  # created by a release that did not read the hash back
        reset_backoff(situation, name, facts)
        mark_outdated(situation, name, facts, container_hash(name, image))
    if any(before["image"] != after["image"] for before, after in both):
        everyone = [*containers_of(pod), *(pod["spec"].get("ephemeralContainers") or ())]
        asked = [(one["image"], one.get("imagePullPolicy") or "IfNotPresent") for one in everyone]
        redefine_images(observed, [*asked, *situation.volume_images.values()])


def resets_backoff(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Report whether an edit of a container resets its back-off (pkg/kubelet/kuberuntime/helpers.go GetBackoffKey)."""
    return before["image"] != after["image"] or before.get("resources") != after.get("resources")


def redefine_images(observed: Observed, asked: list[tuple[str, str]]) -> None:
    """Forget the images that no container names any more, except for their failures.

    A new image is pulled right away, and the pull looks first whether it is there: reading the images would delay a
    re-read of the runtime.
    """
    keys = [image_key(*one) for one in asked]
    kept = {key: one for key, one in observed.images.items() if key in keys or not one.pulled}
    observed.images = {key: ImageFacts() for key in keys} | kept


def containers_of(pod: PodJson) -> list[dict[str, Any]]:
    """List a pod's containers as its source wrote them, init containers first; ephemeral ones never change."""
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def mark_outdated(situation: Situation, name: str, facts: ContainerFacts, wanted: str) -> None:
    """Mark a live instance as outdated, or no longer; one that is already being stopped for it stays marked."""
    lives = facts.exit is None and facts.state not in (None, ContainerState.EXITED)
    if not lives or ends_by_itself(situation, name) or is_being_stopped(situation, name):
        return
    was, facts.outdated = facts.outdated, facts.hash != wanted
    if facts.outdated and not was:
        reset_backoff(situation, name, facts)


def is_being_stopped(situation: Situation, name: str) -> bool:
    """Report whether a container is being stopped, or its preStop hook runs or has run."""
    if isinstance(situation.busy.get(container_key(name)), StopContainer) or situation.facts(name).pre_stop:
        return True
    return situation.is_busy(f"{hook_key(name, Hook.PRE_STOP)}/")


def reset_backoff(situation: Situation, name: str, facts: ContainerFacts) -> None:
    """Forget the back-off and the failures of the former definition."""
    facts.backoff = facts.backoff_at = facts.skipped_at = None
    facts.failure_reason = facts.failure_message = ""
    facts.failed_at = None
    situation.observed.failures.pop(container_key(name), None)
