"""The shapes of pods, each with what happens to it: which containers end, and what its source, an operator or the node does."""

import asyncio
import copy
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from activities.execution.attempt import NotDelivered
from proto.temporal import names
from proto.temporal.operator import AddEphemeralContainer, EvictPod, StopPod
from proto.temporal.pod import PodJson
from proto.temporal.signals import DeletionRequested, PodListed
from tests.chaos.model.halting_world import HaltingWorld
from tests.replay.lives.drawn_pod import MISSING_IMAGE, PROBE, VOLUMES
from worker.stand_in.loop_lead import NotLed
from worker.stand_in.stand_in import RequestRefused

OPERATOR: Final = "root@node-1"
CALM: Final = 30.0
"""Seconds after which a started pod is calm."""
GOING: Final = DeletionRequested("file", "ManifestRemoved", "web.yaml is gone")
Happening = Callable[[HaltingWorld], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Shape:
    """A pod and its course."""

    name: str
    containers: tuple[PodJson, ...] = ()
    init: tuple[PodJson, ...] = ()
    spec: PodJson = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    exits: dict[str, tuple[tuple[float, int], ...]] = field(default_factory=dict)
    """By container: after how many seconds its first instances end, and with which code."""
    then: Happening | None = None
    """What happens to it once it is calm."""
    failing_probes: dict[str, int] = field(default_factory=dict)

    def pod(self) -> PodJson:
        """Return the pod as its source lists it."""
        metadata: PodJson = {"name": "web", "namespace": "default", "uid": "u", "generation": 1}
        if self.annotations:
            metadata["annotations"] = self.annotations
        spec: PodJson = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 2}
        spec |= {"containers": [*(self.containers or (container("main"),))]} | self.spec
        if self.init:
            spec["initContainers"] = [*self.init]
        return copy.deepcopy({"metadata": metadata, "spec": spec})


def container(name: str, **more: Any) -> PodJson:
    """Build a container."""
    return {"name": name, "image": "busybox:1", "imagePullPolicy": "IfNotPresent"} | more


def sidecar(name: str, **more: Any) -> PodJson:
    """Build a sidecar."""
    return container(name, restartPolicy="Always", **more)


async def deliver(world: HaltingWorld, name: str, signal: Any) -> None:
    """Send a signal until somebody takes it, as the poller does."""
    while True:
        try:
            return await world.deliver("", name, signal)
        except NotDelivered:
            await asyncio.sleep(0.05)


async def ask(world: HaltingWorld, name: str, request: Any) -> None:
    """Send a request until somebody takes it."""
    tries = 0
    while True:
        tries += 1
        try:
            if world.led:
                await world.led.update(name, request)
                return
        except NotLed:
            pass
        except RequestRefused:
            if tries > 1:  # the one before was taken
                return
            raise
        await asyncio.sleep(0.05)


async def looked_into(world: HaltingWorld) -> None:
    """Add an ephemeral container."""
    world.model.ephemeral.add("debug")
    look = {"name": "debug", "image": "busybox:1", "targetContainerName": "main"}
    await ask(world, names.ADD_EPHEMERAL_CONTAINER, AddEphemeralContainer(OPERATOR, look, "here", 1))


async def evicted(world: HaltingWorld) -> None:
    """Evict the pod."""
    await ask(world, names.EVICT_POD, EvictPod(OPERATOR, "Evicted", "The node was low on memory. ", source="here"))


async def hastened(world: HaltingWorld) -> None:
    """Delete the pod, and shorten its grace period."""
    await deliver(world, names.DELETION_REQUESTED, GOING)
    await asyncio.sleep(0.5)
    await ask(world, names.STOP_POD, StopPod(OPERATOR, timedelta(0), "here", 1))


async def lost(world: HaltingWorld) -> None:
    """Let the pause process die."""
    await world.lose_sandbox()


def edited(change: Callable[[PodJson], None]) -> Happening:
    """Edit the pod in place."""

    async def happens(world: HaltingWorld) -> None:
        pod = copy.deepcopy(world.pod)
        change(pod["spec"])
        pod["metadata"]["generation"] = 2
        await deliver(world, names.POD_LISTED, PodListed("api", 2, pod, in_place=True))

    return happens


def _other_image(spec: PodJson) -> None:
    spec["containers"][0]["image"] = "busybox:2"


def _more_memory(spec: PodJson) -> None:
    spec["containers"][0]["resources"] = resources("256Mi")["resources"]


def resources(memory: str) -> PodJson:
    """Return a container's field `resources`."""
    return {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": memory}}}


BOTH_HOOKS: Final = {
    "lifecycle": {"postStart": {"exec": {"command": ["true"]}}, "preStop": {"exec": {"command": ["true"]}}}
}
PROBED: Final = {"startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE}
MOUNTS: Final = [{"name": one["name"], "mountPath": f"/mnt/{one['name']}"} for one in VOLUMES]
OWN_HOOKS: Final = {
    "preStart.tempolet.dev/main": '{"exec": {"command": ["true"]}, "retry": {"maxAttempts": 3, "initialSeconds": 1}}',
    "postStop.tempolet.dev/main": '{"exec": {"command": ["true"]}, "image": "busybox:2", "timeoutSeconds": 2}',
}

SHAPES: Final = (
    Shape("one-container"),
    Shape("two-containers", (container("main"), container("other"))),
    Shape("crashes-twice", exits={"main": ((1, 1), (0.5, 137))}),
    Shape("ends-at-once", exits={"main": ((0, 0), (0, 3))}),
    Shape(
        "never-restarts",
        (container("main"), container("other")),
        spec={"restartPolicy": "Never"},
        exits={"main": ((1, 1),), "other": ((2, 0),)},
    ),
    Shape("restarts-on-failure", spec={"restartPolicy": "OnFailure"}, exits={"main": ((1, 1), (1, 0))}),
    Shape("init-containers", init=(container("one"), container("two")), exits={"one": ((0.1, 0),), "two": ((1, 0),)}),
    Shape("failing-init", init=(container("one"),), exits={"one": ((0.1, 1), (0.1, 0))}),
    Shape(
        "failed-for-good",
        init=(container("one"),),
        spec={"restartPolicy": "Never"},
        exits={"one": ((0.1, 1),)},
    ),
    Shape(
        "sidecars",
        init=(sidecar("log"), container("one"), sidecar("proxy", **BOTH_HOOKS)),
        exits={"one": ((0.1, 0),)},
    ),
    Shape("sidecar-crashes", init=(sidecar("log"),), exits={"log": ((3, 1),)}),
    Shape("lifecycle-hooks", (container("main", **BOTH_HOOKS), container("other", **BOTH_HOOKS))),
    Shape("own-hooks", annotations=OWN_HOOKS),
    Shape("volumes", (container("main", volumeMounts=MOUNTS),), spec={"volumes": list(VOLUMES)}),
    Shape("probes", (container("main", **PROBED), container("other", readinessProbe=PROBE))),
    Shape("liveness-fails", (container("main", **PROBED, **BOTH_HOOKS),), failing_probes={"main": 1}),
    Shape("no-such-image", (container("main"), container("other", image=MISSING_IMAGE))),
    Shape("ephemeral-container", then=looked_into, exits={"debug": ((2, 3),)}),
    Shape("other-image", then=edited(_other_image)),
    Shape("resized", (container("main", **resources("128Mi")),), then=edited(_more_memory)),
    Shape("sandbox-lost", init=(container("one"),), then=lost, exits={"one": ((0.1, 0), (0.1, 0))}),
    Shape("evicted", (container("main", **BOTH_HOOKS),), then=evicted),
    Shape("hastened", (container("main", **BOTH_HOOKS),), then=hastened),
)
"""The others follow from these: each has one thing that no other has."""
