"""Which containers run by another definition than the spec has by now: an edit of its image makes a container another one.

Asked when an edit is taken over (`hints`) and whenever an instance is seen (`instances`). One that lives by an older
definition is outdated: `containers` stops it and starts it again, whatever its restartPolicy, and its CrashLoopBackOff
begins anew, as by other resources (pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions, containerChanged;
helpers.go GetBackoffKey).
An init container that ends by itself is left to end (kuberuntime_container.go computeInitContainerActions).
"""

from typing import Any

from proto.kubernetes.container_hash import container_hash
from proto.temporal.activities.requests import StopContainer
from proto.temporal.hooks import Hook
from proto.temporal.pod import ContainerFacts, ContainerState, ImageFacts, Observed, PodJson
from workflows.decide.containers.init_containers import ends_by_itself
from workflows.decide.keys import container_key, hook_key, image_key
from workflows.decide.situation import Situation


def definition_seen(situation: Situation, name: str, facts: ContainerFacts) -> None:
    """Write down whether an instance that was seen is outdated."""
    for one in situation.all_containers:
        if one.name == name and facts.hash:
            compare(situation, name, facts, container_hash(name, one.image or ""))


def redefine(situation: Situation, pod: PodJson) -> None:
    """Write down what the pod, as it is from now on, makes of its containers and images."""
    observed, source = situation.observed, situation.source
    both = list(zip(containers_of(source), containers_of(pod), strict=True))
    for before, after in both:
        name, image = after["name"], after["image"]
        facts = observed.containers.get(name)
        if facts is None or not resets_backoff(before, after):
            continue
        facts.hash = facts.hash or container_hash(name, before["image"])  # made by a release that did not read it back
        reset_backoff(situation, name, facts)
        compare(situation, name, facts, container_hash(name, image))
    if any(before["image"] != after["image"] for before, after in both):
        everyone = [*containers_of(pod), *(pod["spec"].get("ephemeralContainers") or ())]
        asked = [(one["image"], one.get("imagePullPolicy") or "IfNotPresent") for one in everyone]
        redefine_images(observed, [*asked, *situation.volume_images.values()])


def resets_backoff(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Say whether a container's back-off begins anew by an edit of it (pkg/kubelet/kuberuntime/helpers.go GetBackoffKey)."""
    return before["image"] != after["image"] or before.get("resources") != after.get("resources")


def redefine_images(observed: Observed, asked: list[tuple[str, str]]) -> None:
    """Take that other images are asked for; of those that no container names any more only failures stay.

    A new one goes to its pull at once, which looks for it first: reading which are there would hold a re-read of the runtime.
    """
    keys = [image_key(*one) for one in asked]
    kept = {key: one for key, one in observed.images.items() if key in keys or not one.pulled}
    observed.images = {key: ImageFacts() for key in keys} | kept


def containers_of(pod: PodJson) -> list[dict[str, Any]]:
    """List a pod's containers as its source wrote them, init containers first; ephemeral ones never change."""
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def compare(situation: Situation, name: str, facts: ContainerFacts, wanted: str) -> None:
    """Take an instance that lives for outdated, or no longer for it; one that is being stopped for it stays so."""
    lives = facts.exit is None and facts.state not in (None, ContainerState.EXITED)
    if not lives or ends_by_itself(situation, name) or is_going_down(situation, name):
        return
    was, facts.outdated = facts.outdated, facts.hash != wanted
    if facts.outdated and not was:
        reset_backoff(situation, name, facts)


def is_going_down(situation: Situation, name: str) -> bool:
    """Say whether a container is being stopped, or its preStop hook runs or has run."""
    if isinstance(situation.busy.get(container_key(name)), StopContainer) or situation.facts(name).pre_stop:
        return True
    return situation.is_busy(f"{hook_key(name, Hook.PRE_STOP)}/")


def reset_backoff(situation: Situation, name: str, facts: ContainerFacts) -> None:
    """Forget what ends and failures of the former definition have earned."""
    facts.backoff = facts.backoff_at = facts.skipped_at = None
    facts.failure_reason = facts.failure_message = ""
    facts.failed_at = None
    situation.observed.failures.pop(container_key(name), None)
