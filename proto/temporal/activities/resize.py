"""Requests of the activities of an in-place resize: the CRI's two updates."""

from dataclasses import dataclass

from proto.temporal.pod import PodJson, PodKey


@dataclass(frozen=True, slots=True)
class UpdatePodSandboxResources:
    """Set the pod's cgroup to what its spec says now."""

    pod: PodKey
    sandbox_id: str
    sandbox_spec: PodJson
    """As in RunPodSandbox."""
    growing: bool
    """Only raise what is too low: its containers have not been given less yet."""


@dataclass(frozen=True, slots=True)
class UpdateContainerResources:
    """Give a running container the resources that its spec says now; answers what it has then, as RuntimeResources."""

    pod: PodKey
    name: str
    container_id: str
    container: PodJson
    """Of this container's part of the spec: name and resources."""
    sandbox_spec: PodJson
    """As in RunPodSandbox."""
