"""Runs a program of the node (a mount helper, iscsiadm, mkfs) with a deadline.

Used by volume types that need such a program. Each program runs in a session of its own with nothing of our
environment but PATH, and is killed with all its children at its deadline or when its activity is cancelled. For a
program that the node does not have, the error names the package.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

PACKAGES: Final[Mapping[str, str]] = {
    "mount.nfs": "nfs-common (Debian, Ubuntu) or nfs-utils (Fedora, RHEL, SUSE)",
    "iscsiadm": "open-iscsi (Debian, Ubuntu, SUSE) or iscsi-initiator-utils (Fedora, RHEL)",
    "multipath": "multipath-tools (Debian, Ubuntu, SUSE) or device-mapper-multipath (Fedora, RHEL)",
    "mkfs.xfs": "xfsprogs",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext3": "e2fsprogs",
    "mkfs.ext4": "e2fsprogs",
    "blkid": "util-linux",
    "fsck": "util-linux",
    "mount": "util-linux, or mount (Debian, Ubuntu)",
    "umount": "util-linux, or mount (Debian, Ubuntu)",
}
_BESIDE_PATH: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of such programs that the service's PATH may lack."""
_LONGEST: Final = 64 * 1024
_KILLED_WITHIN: Final = 5.0
"""Seconds. A process that survives SIGKILL hangs in the kernel and is left alone."""


class ProgramMissing(Exception):
    """The node does not have a program; the message says what to install."""


class ProgramTimedOut(Exception):
    """A program had not ended at its deadline and was killed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    code: int
    """Its exit code; negative: the signal that ended it."""
    output: str
    """What it wrote to stdout and stderr."""

    @property
    def outcome(self) -> str:
        """Describe how it ended, in the kubelet's words."""
        return f"exit status {self.code}" if self.code >= 0 else f"signal: {signal.strsignal(-self.code)}"


async def run(words: Sequence[str], within: float) -> Ended:
    """Run a program to its end. Raises ProgramMissing, ProgramTimedOut and OSError.

    Output is written to a file in memory instead of a pipe, so that a daemon that the program leaves running does not delay
    its end.
    """
    program = shutil.which(words[0], path=_path())
    if program is None:
        package = PACKAGES.get(words[0], "the package that contains it")
        raise ProgramMissing(f"{words[0]} is not on this node: install {package}")
    with os.fdopen(os.memfd_create(words[0]), "rb") as written:
        code = await _run(program, words, within, written.fileno())
        output = os.pread(written.fileno(), _LONGEST, 0)
    return Ended(code, output.decode(errors="replace").strip())


async def _run(program: str, words: Sequence[str], within: float, output: int) -> int:
    process = await asyncio.create_subprocess_exec(
        program,
        *words[1:],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={"PATH": _path(), "LC_ALL": "C"},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(within):
            return await process.wait()
    except TimeoutError:
        raise ProgramTimedOut(f"{words[0]} had not ended after {within:g} s and was killed") from None
    finally:
        await _end(process)


def _path() -> str:
    return os.pathsep.join((os.environ.get("PATH") or os.defpath, *_BESIDE_PATH))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a program that has not ended, with all its children."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_KILLED_WITHIN):
            await process.wait()
