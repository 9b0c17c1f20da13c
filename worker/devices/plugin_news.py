"""What is logged of device plugins: calls that fail, and their coming and going; little of one that does so all the time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import structlog

from workflows.decide.devices.awaited import bounded
from workflows.decide.devices.registering import FEW, WITHIN, Registrations, Said

_log: Final = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Known:
    registrations: Registrations = field(default_factory=Registrations)
    ended: str = ""
    """Why the last one that was logged is gone."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call of a plugin for a pod, for the log."""

    call: str
    resource: str
    socket: str
    pod: str
    """Its namespace and name; empty if only the uid is known."""
    uid: str
    container: str

    def log(self, error: Exception) -> None:
        """Warn that it failed, or was answered wrongly."""
        _log.warning(
            "a device plugin failed a pod",
            call=self.call,
            resource=self.resource,
            socket=self.socket,
            pod=self.pod or None,
            podUID=self.uid,
            containerName=self.container,
            error=bounded(str(error)),
        )


class PluginNews:
    """The log of one node's plugins; remembers as many resources as there may be, and forgets those first that registered longest ago."""

    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        self._most, self._clock = most, clock
        self._known: dict[str, _Known] = {}

    def registered(self, resource: str, socket: str) -> None:
        """Log a registration, or that there are too many to log each."""
        one, said = self._counted(resource, socket)
        if said is Said.IT:
            one.ended = ""
            _log.info("device plugin registered", resource=resource, socket=socket)

    def refused(self, resource: str, socket: str, why: str) -> None:
        """Log why a plugin could not register; of one that tries all the time only a reason that is new."""
        one, said = self._counted(resource, socket)
        if said is Said.IT or one.ended != why:
            _log.warning("device plugin not registered", resource=resource, socket=socket, error=why)
        one.ended = why

    def gone(self, resource: str, socket: str, why: str) -> None:
        """Log why a plugin is gone; of one that comes and goes all the time only a reason that is new."""
        one = self._known.get(resource)
        if one and one.registrations.is_often and one.ended == why:
            return
        if one:
            one.ended = why
        _log.warning("device plugin is gone", resource=resource, socket=socket, error=why)

    def _counted(self, resource: str, socket: str) -> tuple[_Known, Said]:
        one = self._known[resource] = self._known.pop(resource, _Known())
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        one.registrations, said = one.registrations.with_one(self._clock())
        if said is Said.OFTEN:
            times = one.registrations.times
            _log.warning(
                "a device plugin registers very often; no more of its registrations are logged until it registers rarely again",
                resource=resource,
                socket=socket,
                registrations=len(times),
                seconds=round(times[-1] - times[0], 1),
                rare=f"not more than {FEW} in {WITHIN:g} s",
            )
        return one, said
