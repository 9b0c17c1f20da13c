"""What the activities of a resize say in a pod's story."""

from collections.abc import Iterator

from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from worker.commands.told import Done, Told, seconds
from workflows.decide.resources.resources import format_resources


def container_resized(_: Told, done: Done) -> Iterator[str]:
    """Say what a container has from now on."""
    asked: UpdateContainerResources = done.asked
    if done.answer.gone:
        yield f"container {asked.name} was gone when it was to be resized"
        return
    has = format_resources(asked.container.get("resources") or {})
    yield f"container {asked.name} resized in place: {has} ({seconds(done.took)})"


def cgroup_resized(_: Told, done: Done) -> Iterator[str]:
    """Say which way the pod's cgroup went."""
    asked: UpdatePodSandboxResources = done.asked
    way = "raised before its containers are resized" if asked.growing else "set to what its containers have now"
    yield f"the pod's cgroup {way} ({seconds(done.took)})"
