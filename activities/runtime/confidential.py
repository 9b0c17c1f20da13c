"""Keeps the values of ConfigMaps and Secrets out of what the runtime says about a container, for that goes into history.

A runtime quotes the command that it could not start or the path that it could not mount, and either may refer to a Secret's
value. Asked where a container is made and started, which knows the values and puts the reference in their place, and where one
is read back later, which knows only that there were some: an annotation tells.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from activities.clients.cri_error import CriError
from activities.cri_config.downward import quoted
from activities.cri_config.environment import Environment, expand, refers_to
from proto.cri.v1 import api_pb2 as cri

QUOTABLE: Final = "tempolet.dev/confidential"
"""On a container whose command, arguments or subPaths hold the value of an object: what a runtime may quote."""
_SHORT: Final = 6
"""Shorter values are hidden only where they stand alone: else every letter of a message could be one."""
_CUT: Final = "…"
_UNTOLD: Final = (
    "what the runtime said is not shown: the command or a subPath refers to values of a ConfigMap or Secret"
)


@dataclass(frozen=True, slots=True)
class Hidden:
    """What may not be told, and what stands in its place; the longest first, for one may hold another."""

    values: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    everything: bool = False
    """The values are not known any more."""

    def hide_in(self, error: CriError) -> CriError:
        """Give the same error without the values; the given one is not to be told, not even as a cause."""
        told = CriError(error.call, error.code, self.hide(error.details))
        told.remedy = error.remedy  # it may be known by its text alone
        return told

    def hide(self, message: str) -> str:
        """Put the references back in place of their values, also of one that the end of the message cuts off."""
        if self.everything and message:
            return _UNTOLD
        for value, shown in self.values:
            message = _replaced(message, value, shown)
        return message


def hidden_in(environment: Environment, container: Mapping[str, Any]) -> Hidden:
    """Say what of a container's variables, command and arguments may not be told."""
    pairs = {environment.values[name]: f"$({name})" for name in environment.confidential}
    pairs |= {expand(word, environment.values): word for word in _confidential_words(environment, container)}
    written = pairs | {quoted(value)[1:-1]: shown for value, shown in pairs.items()}
    return Hidden(tuple(sorted(((v, s) for v, s in written.items() if v.strip()), key=lambda one: -len(one[0]))))


def is_quotable(environment: Environment, container: Mapping[str, Any]) -> bool:
    """Say whether a container's command, arguments or subPaths hold the value of an object."""
    return any(_confidential_words(environment, container))


def hidden_of(annotations: Mapping[str, str]) -> Hidden:
    """Say the same of a container that was made before: of one that may quote a value nothing may be told."""
    return Hidden(everything=QUOTABLE in annotations)


def without_values(status: cri.ContainerStatus, hidden: Hidden | None = None) -> cri.ContainerStatus:
    """Take what may not be told out of the runtime's own words about a container."""
    if status.message:
        status.message = (hidden or hidden_of(status.annotations)).hide(status.message)
    return status


def _confidential_words(environment: Environment, container: Mapping[str, Any]) -> Iterator[str]:
    paths = (mount.get("subPathExpr") or "" for mount in container.get("volumeMounts") or ())
    words = (*(container.get("command") or ()), *(container.get("args") or ()), *paths)
    return (word for word in words if refers_to(word, environment.confidential))


def _replaced(message: str, value: str, shown: str) -> str:
    if len(value) < _SHORT:
        return _alone(message, value, shown)
    message = message.replace(value, shown)
    if message.endswith(_CUT):
        told = message.removesuffix(_CUT)
        for size in range(min(len(value), len(told)), _SHORT - 1, -1):
            if told.endswith(value[:size]):
                return f"{told[:-size]}{shown}{_CUT}"
    return message


def _alone(message: str, value: str, shown: str) -> str:
    """Replace a short value where no letter or digit stands beside it."""
    found, start = [], 0
    while (at := message.find(value, start)) >= 0:
        before, after = message[at - 1 : at], message[at + len(value) : at + len(value) + 1]
        found += [message[start:at], value if before.isalnum() or after.isalnum() else shown]
        start = at + len(value)
    return "".join((*found, message[start:]))
