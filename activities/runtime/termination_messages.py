"""A container's termination message: its file, or the end of its log if it asked for that.

Read when an ended container is read back (kuberuntime_container.go getTerminationMessage). A container may have written
more than anybody reads: then the file is cut, so that ended containers do not fill the disk. Blocks on files: call it
in a thread.
"""

import os
import posixpath
from pathlib import Path
from typing import Final

from activities.files.atomic_files import write_atomically
from activities.logs.log_files import refuse_foreign
from proto.cri.labels import CONTAINER_NAME, POD_UID, TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY
from proto.cri.v1 import api_pb2 as cri

MAX_BYTES: Final = 4096  # kubecontainer.MaxContainerTerminationMessageLength
MAX_LOG_BYTES: Final = 2048
MAX_LOG_LINES: Final = 80
_LOG_TAIL: Final = 64 * 1024


def message_mount(path: str) -> str:
    """Return the path of the file in the container; a relative path is relative to the root."""
    return "/" + posixpath.normpath(f"/{path}").lstrip("/") if path else ""


def termination_message(status: cri.ContainerStatus) -> str:
    """Join the runtime's own message and the container's."""
    path = message_mount(status.annotations.get(TERMINATION_MESSAGE_PATH, ""))
    policy = status.annotations.get(TERMINATION_MESSAGE_POLICY, "")
    content = "".join(
        _left_in(Path(mount.host_path), cut=_is_ours(Path(mount.host_path), status))
        for mount in status.mounts
        if path and mount.container_path == path
    )
    from_logs = policy == "FallbackToLogsOnError" and status.exit_code != 0 and status.reason != "ContainerCannotRun"
    if not content and from_logs and status.log_path:
        content = log_tail(Path(status.log_path))
    return ": ".join(part for part in (status.message, content) if part)


def _is_ours(path: Path, status: cri.ContainerStatus) -> bool:
    """Report whether a file was made for this message: a volume may be mounted in its place."""
    labels = status.labels
    return path.parts[-5:-1] == ("pods", labels.get(POD_UID, ""), "containers", labels.get(CONTAINER_NAME, ""))


def _left_in(path: Path, *, cut: bool = False) -> str:
    try:
        tail = _tail(path, MAX_BYTES)
        if cut and len(tail) == MAX_BYTES and path.lstat().st_size > MAX_BYTES:
            write_atomically(path, tail, synced=False)
        return tail.decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"Error on reading termination log {path}: {error.strerror or error}"


def log_tail(path: Path, skip: int = 0) -> str:
    """Read the last lines of a CRI log without time, stream and tags; a line tagged P continues in the next entry.

    The first `skip` bytes, written by another container, are not read.
    """
    try:
        tail = _tail(path, _LOG_TAIL, skip)
    except OSError as error:
        return f"Error on reading termination message from logs: {error.strerror or error}"
    lines = tail.removesuffix(b"\n").split(b"\n")  # at nothing else: a program's output may contain carriage returns
    if len(tail) == _LOG_TAIL:
        del lines[0]  # cut off at its beginning
    text = b""
    for line in lines[-MAX_LOG_LINES:]:
        match line.split(b" ", 3):
            case [_, _, tags, content]:
                text += content if tags.split(b":")[0] == b"P" else content + b"\n"
            case _:  # incomplete: the runtime died while it wrote
                continue
    return text[-MAX_LOG_BYTES:].decode(errors="replace")


def _tail(path: Path, size: int, skip: int = 0) -> bytes:
    """Read the end of a file; raises OSError, also for a link, a FIFO and a file with several names."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        refuse_foreign(os.fstat(descriptor), path.name)
        file.seek(max(skip, os.fstat(descriptor).st_size - size))
        return file.read(size)
