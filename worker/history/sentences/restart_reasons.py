"""Says why a container was started again, from what the history has of its previous instance.

Called by `container_sentences`. Restart back-off is computed by the workflow's own rule in `workflows/decide/containers/backoff.py`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.activities.requests import RuntimeContainer
from proto.temporal.pod import PodJson
from worker.history.sentences.story_state import ContainerStory, seconds
from workflows.decide.containers.backoff import due
from workflows.decide.containers.restart import matching_rule


@dataclass(frozen=True, slots=True)
class Beginning:
    """What an instance of a container was started with."""

    container: PodJson
    """Its part of the pod."""
    sandbox_id: str
    pod: PodJson
    """With the spec that holds for all containers."""
    at: datetime


def restart_words(known: ContainerStory, begun: Beginning) -> str:
    """Describe why a container is restarted and how long it was backed off."""
    if known.end is None:
        return ": the previous instance was lost" if known.container_id else ""
    after = f"after {end_words(known.end)}"
    if known.stopped_because:
        after += f" by our stop ({known.stopped_because})"
    if known.restarted_for and known.restarted_for != begun.container.get("name"):
        return f": with all containers, as the rule of {known.restarted_for} asks, {after}"
    return f": {cause_words(known, begun, known.end)} {after}, {backoff_words(known, begun.at)}"


def cause_words(known: ContainerStory, begun: Beginning, end: RuntimeContainer) -> str:
    """Name the cause of a restart: a new sandbox, a new image, or a rule or policy."""
    if known.sandbox_id not in ("", begun.sandbox_id):
        return "in a new sandbox"
    before, image = known.spec.get("image"), begun.container.get("image")
    return f"with image {image} instead of {before}" if before and before != image else policy_of(begun, end)


def policy_of(begun: Beginning, end: RuntimeContainer) -> str:
    """Name the policy that restarts a container: its rule for that exit code, its own restart policy, or the pod's."""
    if rule := rule_for(begun.container, end):
        return f"rule {rule}"
    own = begun.container.get("restartPolicy")
    return f"policy {own or begun.pod.get('spec', {}).get('restartPolicy', 'Always')}"


def rule_for(container: PodJson, end: RuntimeContainer) -> str:
    """Return the action of the restart rule that matches an exit code; empty if none does."""
    spec = V1Container.from_dict(container) if container.get("restartPolicyRules") else None
    rule = matching_rule(spec, end.exit_code) if spec and end.exit_code is not None else None
    return rule.action if rule else ""


def backoff_words(known: ContainerStory, at: datetime) -> str:
    """Describe the back-off before a restart, and who skipped the rest of it."""
    ended_at = known.end.finished_at if known.end else None
    delay = due(known.backoff, ended_at) - ended_at if ended_at else timedelta()
    if ended_at is None or not delay:
        return "without back-off"
    if known.skipped_by:
        return f"back-off of {seconds(delay)} skipped by {known.skipped_by} after {seconds(at - ended_at)}"
    return f"back-off {seconds(delay)}"


def end_words(end: RuntimeContainer) -> str:
    """Describe an exit code with its reason."""
    return f"exit {end.exit_code}" + (f" {end.reason}" if end.reason else "")
