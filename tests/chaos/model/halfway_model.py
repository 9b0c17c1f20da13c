"""The model of the runtime with what a call leaves that was broken off, and a ledger of what was done."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime

from proto.temporal.activities import requests
from proto.temporal.activities.claims import PrepareResources
from proto.temporal.activities.requests import RuntimeContainer
from proto.temporal.activities.volumes import MountVolumes
from proto.temporal.hooks import Hook
from proto.temporal.pod import ContainerState
from tests.workflows.decide.runtime_model import RuntimeModel
from workflows.decide.actions import Action

HookRun = tuple[str, str, str]
"""Container, hook, and the key of the action, which names the instance."""


@dataclass
class Ledger:
    """What was done to the runtime, in order."""

    made: list[tuple[str, int]] = field(default_factory=list)
    """(container, attempt) of each creation."""
    signalled: list[str] = field(default_factory=list)
    """Containers that got SIGTERM."""
    killed: list[str] = field(default_factory=list)
    """Containers that were alive when their sandbox was stopped."""
    hooked: list[HookRun] = field(default_factory=list)
    """The runs of hooks that began."""
    broken_off: list[HookRun] = field(default_factory=list)
    """Those whose worker died before their outcome was recorded."""
    broken: list[str] = field(default_factory=list)
    """What may never happen, as it happened."""


@dataclass
class HalfwayModel(RuntimeModel):
    """One pod's part of a runtime."""

    ledger: Ledger = field(default_factory=Ledger)
    prestopped: frozenset[str] = frozenset()
    """Containers with a preStop hook."""
    ended: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    def half(self, action: Action) -> None:
        """Leave what a call leaves whose caller died in its middle."""
        match action:
            case requests.RunPodSandbox() if not self.ready():
                self.lose_sandbox(self.run_sandbox(action.attempt).sandbox_id)
            case requests.StartContainer():
                known = set(self.containers)
                made = self._made(action)
                if made.container_id not in known:
                    self.containers[made.container_id] = replace(made, state=ContainerState.CREATED, started_at=None)
            case requests.StopContainer() | requests.ShortenStop() if self.lives(action.container_id):
                self._signal(action)
            case requests.RemovePodSandbox(sandbox_id=sandbox_id):
                self.stop_sandbox(sandbox_id)
            case PrepareResources():
                self.claims_prepared = True
            case MountVolumes():
                self.mounted |= {one["name"] for one in action.volumes}
            case requests.MakePodDirectories():
                self.directories = True

    def start(self, action: requests.StartContainer) -> RuntimeContainer:
        """Start a container that was only created, or find or create one."""
        one = self._made(action)
        if one.state is ContainerState.CREATED:
            one = replace(one, state=ContainerState.RUNNING, started_at=self.now)
            self.containers[one.container_id] = one
            self.came_up.add((one.sandbox_id, one.name))
        return one

    def stop(self, action: requests.StopContainer | requests.ShortenStop) -> RuntimeContainer:
        """Send SIGTERM first."""
        if self.lives(action.container_id):
            self._signal(action)
        return super().stop(action)

    def stop_sandbox(self, sandbox_id: str) -> None:
        """Note what it kills."""
        self.ledger.killed += [one.name for one in self.live() if one.sandbox_id == sandbox_id]
        super().stop_sandbox(sandbox_id)

    def end(self, container_id: str, code: int) -> None:
        """End with containerd's reason, and tell who waits for it."""
        super().end(container_id, code)
        one = self.containers[container_id]
        self.containers[container_id] = replace(one, reason=one.reason or "Error")
        self.ended[container_id].set()

    def check(self, at: datetime) -> None:
        """Note what may never be so."""
        names = [one.name for one in self.live()]
        if len(self.ready()) > 1:
            self.ledger.broken.append(f"{at:%H:%M:%S.%f}: {len(self.ready())} live sandboxes")
        self.ledger.broken += [f"{at:%H:%M:%S.%f}: two of {name}" for name in set(names) if names.count(name) > 1]

    def _made(self, action: requests.StartContainer) -> RuntimeContainer:
        known = set(self.containers)
        one = super().start(action)
        if one.container_id not in known:
            self.ledger.made.append((one.name, one.attempt))
        return one

    def _signal(self, action: requests.StopContainer | requests.ShortenStop) -> None:
        self.ledger.signalled.append(action.name)
        if action.name in self.prestopped and (action.name, Hook.PRE_STOP) not in {
            one[:2] for one in self.ledger.hooked
        }:
            self.ledger.broken.append(f"{action.name} gets SIGTERM before its preStop hook")
