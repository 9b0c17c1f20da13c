"""Debian root folders made by mmdebstrap, from the machine's own mirror, and commands that run in them.

Used for the Debian package, and in tests for QEMU's root and the guest's. Every command runs in PID and mount namespaces of its own and is killed with the process that
started it, so neither mounts nor processes are left, and a folder can be removed whatever happened.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from worker.standalone.parts.debian import NotFetched, PrivateApt, find_mirror, this_release, unpack

SUITE: Final = "trixie"  # QEMU 10, and a Debian with cgroup v2, systemd 257 and Python 3.13
CONTAINED: Final = ("setpriv", "--pdeathsig", "KILL", "--", "unshare", "--pid", "--kill-child=KILL")
NAMESPACES: Final = ("--mount-proc", "--propagation", "private", "--")
ENTER: Final = """\
mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"
"""
ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
BOOTSTRAP_SECONDS: Final = 1800.0
COMMAND_SECONDS: Final = 900.0
_TAIL: Final = 3000


class CannotBuild(Exception):
    """A part of the machine cannot be built here; says why and what to do."""


class NotHere(CannotBuild):
    """This machine lacks what a build needs."""


def bootstrap(target: Path, packages: Sequence[str], variant: str) -> None:
    """Make a root folder with packages of SUITE; raises CannotBuild.

    `variant` is mmdebstrap's: `extract` only unpacks, `apt` installs.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        work = Path(folder)
        try:
            mirror = find_mirror(this_release())
            program = _mmdebstrap(work)
        except NotFetched as error:
            raise NotHere(f"no machine can be made: {error}") from error
        reach = work / "apt-options"  # proxies and the like
        reach.write_bytes(subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, check=True).stdout)
        command = [*program, "--mode=root", "--format=directory", f"--variant={variant}", f"--aptopt={reach}"]
        command += [f"--include={','.join(packages)}", "--dpkgopt=path-exclude=/usr/share/doc/*"]
        command += ["--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]
        command += [SUITE, str(target), f"deb {mirror.options} {mirror.uri} {SUITE} main"]
        search = f"{work}/mmdebstrap/usr/bin:{ENVIRONMENT['PATH']}"
        contained(command, BOOTSTRAP_SECONDS, {**ENVIRONMENT, "PATH": search, "TMPDIR": str(work)})


def in_root(root: Path, argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command of a root folder in that folder, with /proc and /dev; raises CannotBuild."""
    contained(["sh", "-c", ENTER, str(root), *argv], COMMAND_SECONDS, {**ENVIRONMENT, **environment})


def contained(argv: Sequence[str], seconds: float, environment: Mapping[str, str] = ENVIRONMENT) -> None:
    """Run a command that leaves neither a mount nor a process; raises CannotBuild with the end of what it said."""
    try:
        done = subprocess.run(
            [*CONTAINED, *NAMESPACES, *argv],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except OSError as error:
        raise NotHere(f"util-linux is needed (setpriv, unshare): {error}") from error
    except subprocess.TimeoutExpired as error:
        raise CannotBuild(f"`{argv[0]}` did not end within {seconds:.0f} s") from error
    if done.returncode:
        said = done.stdout.decode(errors="replace")[-_TAIL:]
        raise CannotBuild(f"`{' '.join(argv)[:300]}` ended with {done.returncode}:\n{said}")


def _mmdebstrap(work: Path) -> list[str]:
    """Return the command: the machine's, else that of Debian's package, unpacked into the work folder."""
    if found := shutil.which("mmdebstrap"):
        return [found]
    apt = PrivateApt(work / "apt", this_release())
    apt.prepare([])
    for archive in apt.download("mmdebstrap", apt.release):
        unpack(archive, work / "mmdebstrap")
    return ["perl", str(work / "mmdebstrap/usr/bin/mmdebstrap")]
