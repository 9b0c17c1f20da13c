"""Sentences about a pod's resources: its resizes, and the devices of its ResourceClaims."""

from collections.abc import Iterator

from proto.temporal.activities.claims import ClaimedDevice, PreparedResources
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from worker.history.sentences.story_state import CompletedActivity, StoryState, seconds
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


def claims_prepared(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report that the claims are prepared, with their devices; an earlier release did not record these."""
    yield f"resource claims prepared ({seconds(done.took)})"
    found: PreparedResources | None = done.answer
    if found:
        yield from map(_device, found.devices)
        if found.more:
            yield f"and {found.more} more devices of claims"


def claims_unprepared(state: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report that the claims are undone, if they can have been prepared."""
    if not state.never_was_here:
        yield f"resource claims unprepared ({seconds(done.took)})"


def _device(device: ClaimedDevice) -> str:
    why = f"request {', '.join(device.requests)} of " if device.requests else ""
    where = f"device {device.device} of pool {device.pool} of driver {device.driver}"
    return f"{where} is the pod's: allocated for {why}ResourceClaim {device.claim}"
