"""QEMU's control protocol (QMP): press the power button, pull devices, ask for the state. One command a connection."""

import contextlib
import json
import socket
from pathlib import Path
from typing import Any, Final

SECONDS: Final = 20.0
LINE_LIMIT: Final = 1 << 20


class QmpFailed(Exception):
    """QEMU does not answer, or refuses the command; names the command."""


def execute(path: Path, command: str, **arguments: Any) -> Any:
    """Execute a command through the socket and return its answer; raises QmpFailed."""
    try:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.settimeout(SECONDS)
            connection.connect(str(path))
            with connection.makefile("rwb") as stream:
                stream.readline(LINE_LIMIT)  # the greeting
                for name, given in (("qmp_capabilities", {}), (command, arguments)):
                    stream.write(json.dumps({"execute": name, "arguments": given}).encode() + b"\n")
                    stream.flush()
                    answer = _answer(stream.readline, name)
                return answer
    except OSError as error:
        raise QmpFailed(f"{command}: {error}") from error


def _answer(readline: Any, command: str) -> Any:
    while line := readline(LINE_LIMIT):
        told = json.loads(line)
        if "error" in told:
            raise QmpFailed(f"{command}: {told['error'].get('desc')}")
        if "return" in told:  # otherwise an event
            return told["return"]
    raise QmpFailed(f"{command}: QEMU has ended the connection")
