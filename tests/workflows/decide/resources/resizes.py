"""Pods whose source resizes them, for the tests of `allocation` and `resize`."""

from dataclasses import replace
from typing import Any

from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.pod import NodeSettings, PodJson
from proto.temporal.resources import Allocatable, RuntimeResources
from tests.workflows.decide.situations import Context, container, describe_all, pod, situation, up
from workflows.decide.record.fold import fold
from workflows.decide.resources.allocation import allocate
from workflows.decide.situation import Situation
from workflows.decide.steps.pod_actions import pod_actions

MI = 1024**2


def amounts(cpu: str, memory: str) -> PodJson:
    """Build resources whose requests equal their limits."""
    both = {"cpu": cpu, "memory": memory}
    return {"requests": both, "limits": dict(both)}


def resources(**given: str) -> PodJson:
    """Build resources: cpu_request, cpu_limit, memory_request, memory_limit."""
    written: PodJson = {}
    for name, amount in given.items():
        resource, kind = name.split("_")
        written.setdefault(f"{kind}s", {})[resource] = amount
    return written


def of(*containers: PodJson, **spec: Any) -> PodJson:
    """Build a pod with these containers."""
    return pod(containers=list(containers), **spec)


def web(given: PodJson, name: str = "web", **fields: Any) -> PodJson:
    """Build a container with these resources."""
    return container(name, resources=given, **fields)


def policy(cpu: str, memory: str) -> list[PodJson]:
    """Build a resizePolicy: R restarts the container."""
    words = {"R": "RestartContainer", "N": "NotRequired"}
    return [
        {"resourceName": "cpu", "restartPolicy": words[cpu]},
        {"resourceName": "memory", "restartPolicy": words[memory]},
    ]


def resized(
    old: PodJson, new: PodJson, context: Context | None = None, *, decided: bool = False, **known: Any
) -> Situation:
    """Return the situation of a pod that was just resized by its source; `decided`: as the node has granted it."""
    known.setdefault("containers", {one["name"]: up(one["name"]) for one in old["spec"]["containers"]})
    before = situation(old, context or Context(), **known)
    return after(before, allocate(before, new, decided=decided))


def after(before: Situation, source: PodJson) -> Situation:
    """Return the situation with another source."""
    return replace(before, source=source, spec=situation(source).spec)


def carried_out(here: Situation) -> list[str]:
    """Let every step of a resize succeed, and return them in order."""
    done: list[str] = []
    while begin := pod_actions(here).begin:
        for action in begin:
            done += describe_all([action])
            match action:
                case UpdatePodSandboxResources(growing=growing):
                    done[-1] += " up" if growing else ""
                    fold(here, action, None)
                case UpdateContainerResources():
                    fold(here, action, RuntimeResources(cpu_shares=2))
                case _:
                    return done
    return done


SMALL, LARGE = amounts("100m", "100Mi"), amounts("200m", "200Mi")
NODE = NodeSettings(allocatable=Allocatable(cpu_milli=4000, memory_bytes=4096 * MI))
