"""A real systemd as PID 1 of a PID namespace, for `test_systemd`: units are run, not only read.

It has mounts of its own (a tmpfs on /run, its own view of every cgroup hierarchy) and finds units in one folder only, so
nothing of the machine's own units or systemd is touched. Everything in it dies with the namespace's first process.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import worker
from tests.waiting import wait_until

CHECKOUT: Final = Path(worker.__file__).resolve().parents[1]
UNITS: Final = CHECKOUT / "deploy" / "systemd"
SYSTEMD: Final = Path("/lib/systemd/systemd")
TARGETS: Final = ("default", "sysinit", "basic", "shutdown", "network-online", "multi-user")
OF_SYSTEMD_ITSELF: Final = ("/run/systemd/system.control", "/run/systemd/transient")
"""Where it keeps transient units and their properties, which a daemon-reload reads again."""
UNIFIED: Final = Path("/sys/fs/cgroup")
"""The root of cgroup v2, on a machine without v1."""
JOURNALD: Final = Path("/lib/systemd/systemd-journald")
JOURNAL: Final = f"""\
[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=notify
ExecStart={JOURNALD}
StandardOutput=null
"""
OF_ITS_OWN: Final = """
mkdir -p /run/systemd/journald.conf.d
printf '[Journal]\\nStorage=volatile\\nReadKMsg=no\\nAudit=no\\n' > /run/systemd/journald.conf.d/own.conf
"""
"""It keeps its journal in /run, and asks this machine's kernel for nothing."""
INSIDE: Final = """
set -e
while read -r _ at type options _; do
  case "$type $options" in
    "cgroup2 "*) echo "$at cgroup2 rw" ;;
    "cgroup "*name=systemd*) echo "$at cgroup none,name=systemd" ;;
    "cgroup "*) echo "$at cgroup ${at##*/}" ;;
  esac
done < /proc/self/mounts | while read -r at type options; do
  umount "$at"; mount -t "$type" -o "$options" "$type" "$at"
done
while grep -qsx 0 /sys/fs/cgroup/cgroup.procs; do sleep 0.05; done
mount -t tmpfs tmpfs /run
"""
"""Each cgroup hierarchy is mounted anew, so that its root is this machine's. A process 0 in it is one of outside."""


def our_unit(role: str, command: str, log: Path) -> str:
    """Return our own unit with another command, as an operator's drop-in would change it."""
    text = (UNITS / f"tempolet-{role}.service").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("ExecStart=")]
    lines.insert(lines.index("[Service]") + 1, f"ExecStart={command}")
    lines.insert(lines.index("[Service]") + 1, f"Environment=PYTHONPATH={CHECKOUT}")
    lines.insert(lines.index("[Service]") + 1, f"StandardOutput=append:{log}\nStandardError=append:{log}")
    return "\n".join(lines) + "\n"


def hierarchies() -> list[Path]:
    """List where cgroup hierarchies are mounted."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(fields[1]) for fields in lines if fields[2] in {"cgroup", "cgroup2"}]


def has_unified_hierarchy() -> bool:
    """Report whether this machine has cgroup v2 alone."""
    return (UNIFIED / "cgroup.controllers").exists()


class NoProcess(AssertionError):
    """A unit has no main process at this moment."""


class Machine:
    """One such systemd; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.units = folder / "units"
        self.log = folder / "systemd.log"
        self.units.mkdir()
        self._unit_path = ":".join([*OF_SYSTEMD_ITSELF, str(self.units)])
        self._cgroups: list[Path] = []
        for target in TARGETS:
            self.write(f"{target}.target", "[Unit]\nDefaultDependencies=no\nAllowIsolate=yes\n")
        self._shell: subprocess.Popen[bytes] | None = None
        self._first = 0
        self.prepared = ""
        """What the shell that becomes systemd does before, such as more mounts."""
        self.own_network = False
        """Whether it has a network of its own, in which even loopback is down until `prepared` raises it."""

    def __enter__(self) -> "Machine":
        if has_unified_hierarchy():
            controllers = (UNIFIED / "cgroup.controllers").read_text().split()
            (UNIFIED / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in controllers))
        self._cgroups = [at / f"tempolet-systemd-{os.getpid()}-{time.monotonic_ns()}" for at in hierarchies()]
        for cgroup in self._cgroups:
            cgroup.mkdir()
            for inherited in ("cpuset.cpus", "cpuset.mems"):  # v1: empty in a new one, which then takes no process
                if (cgroup.parent / inherited).exists():
                    (cgroup / inherited).write_text((cgroup.parent / inherited).read_text())
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._shell is not None:
            self._shell.kill()  # unshare's child and with it the namespace
            self._shell.wait()
            wait_until(lambda: not Path(f"/proc/{self._first}").exists(), "the namespace's end")
        for cgroup in self._cgroups:
            wait_until(partial(remove_tree, cgroup), f"{cgroup} to be empty")

    def _start(self) -> None:
        moves = " && ".join(f"echo $$ > {cgroup}/cgroup.procs" for cgroup in self._cgroups)
        unshare = "exec unshare --pid --fork --kill-child --mount --cgroup --mount-proc --propagation private"
        unshare += " --net" if self.own_network else ""
        script = f'{moves} && {unshare} sh -c "$1" "$2"'
        environment = {
            "PATH": os.environ["PATH"],
            "container": "tempolet",
            "SYSTEMD_UNIT_PATH": self._unit_path,
            "SYSTEMD_LOG_TARGET": "console",
        }
        with self.log.open("wb") as log:
            self._shell = subprocess.Popen(
                [
                    "sh",
                    "-c",
                    script,
                    "sh",
                    f"{INSIDE}{OF_ITS_OWN}{self.prepared}\nexec $0 --system --show-status=no",
                    str(SYSTEMD),
                ],
                env=environment,
                stdout=log,
                stderr=log,
            )
        if has_unified_hierarchy():  # v2: systemd gives its children no controllers while its own cgroup has processes
            wait_until(self._has_begun, "systemd's first process")
            (UNIFIED / "cgroup.procs").write_text(str(self._shell.pid))
        wait_until(self._answers, f"systemd to answer; its log: {self.log}")

    def _answers(self) -> bool:
        return self._has_begun() and "running" in self.systemctl("is-system-running", check=False)

    def _has_begun(self) -> bool:
        assert self._shell is not None
        if self._shell.poll() is not None:
            raise RuntimeError(f"systemd did not start: {self.log.read_text()}")
        children = Path(f"/proc/{self._shell.pid}/task/{self._shell.pid}/children").read_text().split()
        if not children:
            return False
        self._first = int(children[0])
        return True

    def write(self, name: str, text: str) -> None:
        """Put a unit or a drop-in (`x.service.d/y.conf`) into the units' folder."""
        path = self.units / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def add_journal(self) -> None:
        """Let it start with a journald, before its other services; without it what they say is lost."""
        self.write("systemd-journald.service", JOURNAL)
        self.write("sysinit.target.d/journal.conf", "[Unit]\nRequires=systemd-journald.service\n")

    def systemctl(self, *arguments: str, check: bool = True) -> str:
        """Run systemctl inside; gives its output, raises with it when it fails."""
        return self.inside("systemctl", "--no-pager", *arguments, check=check)

    def inside(self, *command: str, check: bool = True, seconds: float = 60) -> str:
        """Run a command inside; gives its output, raises with it when it fails."""
        environment = {"PATH": os.environ["PATH"], "SYSTEMD_UNIT_PATH": self._unit_path}
        done = subprocess.run(
            [*self.entering, *command], capture_output=True, text=True, timeout=seconds, check=False, env=environment
        )
        if check and done.returncode:
            raise AssertionError(f"{command}: {done.stdout}{done.stderr}\n{self.log.read_text()[-3000:]}")
        return done.stdout + done.stderr

    @property
    def entering(self) -> list[str]:
        """The start of a command line that runs inside; its working folder is the root."""
        network = ["--net"] if self.own_network else []
        return ["nsenter", "--target", str(self._first), "--mount", "--pid", "--cgroup", *network]

    def show(self, unit: str) -> Mapping[str, str]:
        """Read a unit's properties."""
        lines = self.systemctl("show", unit).splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def pid(self, unit: str) -> int:
        """Return the PID of a unit's main process in the test's namespace; raises NoProcess."""
        inside = self.show(unit)["MainPID"]
        for status in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):
                ids = next(line for line in status.read_text().splitlines() if line.startswith("NSpid:")).split()[1:]
                if len(ids) == len(self._depth()) and ids[-1] == inside and same_namespace(int(ids[0]), self._first):
                    return int(ids[0])
        raise NoProcess(f"{unit} has no process {inside}")

    def kill(self, unit: str) -> str:
        """Kill the main process of a unit with SIGKILL, once it has one; returns its PID inside."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = [self.show(unit)["MainPID"]]
            return found != ["0"]  # which between two processes a unit has; `kill -9 0` would end the tests

        wait_until(is_there, f"{unit} to have a process")
        self.inside("kill", "-9", *found)
        return found[0]

    def _depth(self) -> list[str]:
        status = Path(f"/proc/{self._first}/status").read_text().splitlines()
        return next(line for line in status if line.startswith("NSpid:")).split()[1:]


def same_namespace(one: int, other: int) -> bool:
    """Return whether two processes are in one PID namespace."""
    return Path(f"/proc/{one}/ns/pid").readlink() == Path(f"/proc/{other}/ns/pid").readlink()


def remove_tree(cgroup: Path) -> bool:
    """Remove a cgroup and those in it; False while a dying process is still inside."""
    if not cgroup.exists():
        return True
    for folder, _, _ in os.walk(cgroup, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not cgroup.exists()


def skip_unless_possible() -> None:
    """Name what is missing for such a machine."""
    import pytest  # noqa: PLC0415 - a booted machine that runs the official node tests has none

    if os.geteuid() != 0:
        pytest.skip("needs root")
    missing = [name for name in ("unshare", "nsenter", "systemctl") if shutil.which(name) is None]
    if missing or not SYSTEMD.exists():
        pytest.skip(f"needs {', '.join([*missing, str(SYSTEMD)])}: install systemd and util-linux")
