"""Sentences about the activities of a resize."""

from collections.abc import Iterator

from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from worker.history.story_state import CompletedActivity, StoryState, seconds
from workflows.decide.resources.resources import format_resources


def container_resized(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report a container's new resources."""
    asked: UpdateContainerResources = done.asked
    if done.answer.gone:
        yield f"container {asked.name} was gone before it could be resized"
        return
    has = format_resources(asked.container.get("resources") or {})
    yield f"container {asked.name} resized in place: {has} ({seconds(done.took)})"


def cgroup_resized(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report whether the pod's cgroup was raised before the containers, or set after them."""
    asked: UpdatePodSandboxResources = done.asked
    way = "raised before its containers are resized" if asked.growing else "set to what its containers have now"
    yield f"the pod's cgroup {way} ({seconds(done.took)})"
