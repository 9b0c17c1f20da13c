"""Redacts values of ConfigMaps and Secrets in the runtime's messages about a container, because they go into history.

A runtime quotes the command that it could not start or the path that it could not mount, and either may contain a
Secret's value. When a container is created and started the values are known and replaced by their references. When it
is read back later, only an annotation tells that there were some, and the whole message is withheld.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from activities.clients.cri_error import CriError
from activities.cri_config.downward import quoted
from activities.cri_config.environment import Environment, expand, refers_to
from proto.cri.v1 import api_pb2 as cri

QUOTABLE: Final = "tempolet.dev/confidential"
"""Annotation of a container whose command, arguments or subPaths contain the value of an object."""
_SHORT: Final = 6
"""Shorter values are redacted only as whole words, otherwise any letter of a message could match."""
_CUT: Final = "…"
_UNTOLD: Final = (
    "what the runtime said is not shown: the command or a subPath refers to values of a ConfigMap or Secret"
)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Values to redact and their replacements, the longest first, because one may contain another."""

    values: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    everything: bool = False
    """The values are no longer known: withhold the whole message."""

    def redact_error(self, error: CriError) -> CriError:
        """Return a redacted copy of an error; never report the original, not even as a cause."""
        redacted = CriError(error.call, error.code, self.hide(error.details))
        redacted.remedy = error.remedy  # it may have been derived from the unredacted text
        return redacted

    def hide(self, message: str) -> str:
        """Replace values by their references, also a value that is cut off at the end of the message."""
        if self.everything and message:
            return _UNTOLD
        for value, shown in self.values:
            message = _replaced(message, value, shown)
        return message


def redaction_for(environment: Environment, container: Mapping[str, Any]) -> Redaction:
    """Collect the confidential values in a container's variables, command and arguments."""
    pairs = {environment.values[name]: f"$({name})" for name in environment.confidential}
    pairs |= {expand(word, environment.values): word for word in _confidential_words(environment, container)}
    written = pairs | {quoted(value)[1:-1]: shown for value, shown in pairs.items()}
    return Redaction(tuple(sorted(((v, s) for v, s in written.items() if v.strip()), key=lambda one: -len(one[0]))))


def quotes_confidential(environment: Environment, container: Mapping[str, Any]) -> bool:
    """Report whether a container's command, arguments or subPaths contain the value of an object."""
    return any(_confidential_words(environment, container))


def redaction_of_status(annotations: Mapping[str, str]) -> Redaction:
    """Return the same for an existing container: if it may quote a value, withhold everything."""
    return Redaction(everything=QUOTABLE in annotations)


def redact_status(status: cri.ContainerStatus, hidden: Redaction | None = None) -> cri.ContainerStatus:
    """Redact the runtime's messages in a container's status."""
    if status.message:
        status.message = (hidden or redaction_of_status(status.annotations)).hide(status.message)
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
        redacted = message.removesuffix(_CUT)
        for size in range(min(len(value), len(redacted)), _SHORT - 1, -1):
            if redacted.endswith(value[:size]):
                return f"{redacted[:-size]}{shown}{_CUT}"
    return message


def _alone(message: str, value: str, shown: str) -> str:
    """Replace a short value where it stands as a word."""
    found, start = [], 0
    while (at := message.find(value, start)) >= 0:
        before, after = message[at - 1 : at], message[at + len(value) : at + len(value) + 1]
        found += [message[start:at], value if before.isalnum() or after.isalnum() else shown]
        start = at + len(value)
    return "".join((*found, message[start:]))
