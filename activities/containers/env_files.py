"""Reads one variable from a file that a container has written into a volume (fileKeyRef).

Called by `environment_sources`; blocks on files, so call it in a thread. The grammar is that of
pkg/kubelet/util/env/env_util.go, a strict subset of shell: `NAME='value'`, single quotes, possibly several lines, no
expansion. The writer is not trusted: no link leads out of the volume, only regular files are read, and the size is
limited.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from activities.files.safe_open import open_beneath

LONGEST_LINE: Final = 64 * 1024
"""Bytes; the limit of Go's scanner."""
LARGEST_FILE: Final = 16 << 20
"""Bytes; our limit: a file that grows while it is read would never end."""


class EnvFileRefused(Exception):
    """The file cannot be read or parsed; the message names a line, never its content."""


def read_variable(volume: Path, path: str, name: str) -> str:
    """Return a variable's value, empty if it is not there; raises EnvFileRefused."""
    try:
        with open_beneath(volume, path, make=False) as found:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise EnvFileRefused("it is not a regular file")
            descriptor = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                return parse_variable(_lines(file), name)
    except OSError as error:
        raise EnvFileRefused(error.strerror or str(error)) from error


def parse_variable(lines: Iterator[str], name: str) -> str:
    """Look for a variable in a file's lines; raises EnvFileRefused for the first invalid line before it."""
    numbered = enumerate(lines, start=1)
    for number, raw in numbered:
        line = raw.lstrip(" \t")
        if not line or line.startswith("#"):
            continue
        found, equals, rest = line.partition("=")
        if not equals or not found or found != found.rstrip(" \t"):
            raise EnvFileRefused(f"line {number}: NAME='value' is expected, with no space before the equals sign")
        if rest[:1] in {" ", "\t"}:  # a shell reads an empty value here
            value = ""
        elif rest.startswith("'"):
            value = _quoted(rest[1:], numbered, number)
        else:
            raise EnvFileRefused(f"line {number}: the value must be in single quotes")
        if found == name:
            return value
    return ""


def _quoted(rest: str, numbered: Iterator[tuple[int, str]], began: int) -> str:
    """Read a value up to its closing quote, possibly over several lines."""
    value, number = "", began
    while "'" not in rest:
        value += f"{rest}\n"
        number, rest = next(numbered, (0, ""))
        if not number:
            raise EnvFileRefused(f"line {began}: the quote is never closed")
    last, _, after = rest.partition("'")
    after = after.lstrip(" \t")
    if after and not after.startswith("#"):
        raise EnvFileRefused(f"line {number}: there is text after the closing quote")
    return value + last


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Read line by line within the limits; bytes that are not UTF-8 become surrogates."""
    left = LARGEST_FILE
    while line := file.readline(LONGEST_LINE + 1):
        left -= len(line)
        if len(line) > LONGEST_LINE or left < 0:
            raise EnvFileRefused(f"it has a line of over {LONGEST_LINE} bytes, or over {LARGEST_FILE} bytes")
        yield line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="surrogateescape")
