"""The query of exec, attach and port-forward requests. Pure.

The parameters are the kubelet's (cri-streaming/pkg/streaming remotecommand NewOptions, portforward NewV4Options), not the
API's: input, output, error, tty, command, port.
"""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from multidict import MultiMapping

from worker.api.responses.responses import Refused
from workflows.decide.manifest.fields.field_errors import shortened

_HIGHEST_PORT: Final = 65535
_PORT: Final = re.compile(r"\d{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Which streams of a process the client wants."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def stream_options(query: MultiMapping[str]) -> StreamOptions:
    """Parse them; with a terminal there is no separate stderr. Raises Refused if no stream is requested."""
    stdin, stdout, stderr, tty = (query.get(name) == "1" for name in ("input", "output", "error", "tty"))
    stderr = stderr and not tty
    if not (stdin or stdout or stderr):
        raise _wrong("you must specify at least 1 of stdin, stdout, stderr")
    return StreamOptions(stdin, stdout, stderr, tty)


def ports(query: MultiMapping[str]) -> list[int]:
    """Parse the ports a WebSocket client wants forwarded; raises Refused."""
    asked = query.getall("port", [])
    if not asked:
        raise _wrong('query parameter "port" is required')
    found = []
    for text in asked:
        if not text:
            raise _wrong('query parameter "port" cannot be empty')
        for one in text.split(","):
            if not _PORT.fullmatch(one) or int(one) > _HIGHEST_PORT:
                raise _wrong(f'unable to parse "{shortened(text)}" as a port')
            if int(one) < 1:
                raise _wrong(f'port "{shortened(text)}" must be > 0')
            found.append(int(one))
    return found


def subprotocols(header: str) -> list[str]:
    """Parse the subprotocols a WebSocket client offers."""
    return [one.strip() for one in header.split(",") if one.strip()]


def _wrong(sentence: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, sentence)
