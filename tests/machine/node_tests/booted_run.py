"""Runs the official node tests inside a booted machine: `node_tests_run` there makes a machine of namespaces, on cgroup v2.

Emulation is ten times slower, so a choice of a few tests takes a quarter of an hour, and asks for idle cores.
"""

import contextlib
import shlex
import tarfile
import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

from tests.machine.hardware import Hardware
from tests.machine.joined.served_programs import served
from tests.machine.machine import Machine, machine_of, parts_of_this_checkout
from tests.machine.node_tests.carried import HOME, VENV, write_archive
from tests.machine.run_folders import run_folder
from tests.worker.daemon.systemd_machine import CHECKOUT

HARDWARE: Final = Hardware(memory_mib=8192, sockets=2, cores=2, threads=2, numa_nodes=2, reaches_host=True)
"""Eight CPUs, as the suites of PodResources and of the CPU manager want."""
UNIT: Final = "official-node-tests"
RESULT: Final = "/var/tmp/node-tests"
LOOK_SECONDS: Final = 30.0
LATEST: Final = f"cd {RESULT} && grep -a '^•\\|^Ran ' log; grep -a STEP: log | tail -n 1"
"""Which tests have ended, and how, and what the current one does."""
UNPACKED_WITHIN: Final = 1200.0
KEPT: Final = ("summary", "junit_01.xml", "log", "kubelet.log", "runtime.log", "systemd.log", "run.log")


def run_booted(arguments: Sequence[str], out: Path, hardware: Hardware = HARDWARE) -> int:
    """Boot a machine, run `python -m tests.cluster.node_tests` there with these arguments, and keep its logs; returns its exit code."""
    with run_folder() as folder, parts_of_this_checkout() as parts, machine_of(parts, hardware) as machine:
        write_archive(CHECKOUT, folder / "carried.tar", parts.guest.python)
        machine.boot()
        print("the machine is up", flush=True)
        with served(folder) as url:
            machine.run(f"curl -sSf {url}/carried.tar | tar x -C /", UNPACKED_WITHIN)
        return _run(machine, arguments, out)


def _run(machine: Machine, arguments: Sequence[str], out: Path) -> int:
    words = shlex.join([*arguments, "--out", RESULT])
    inside = f"cd /{HOME} && exec {VENV}/bin/python -m tests.cluster.node_tests {words} > {RESULT}.log 2>&1"
    given = "--setenv=PYTHONDONTWRITEBYTECODE=1 --property=RemainAfterExit=yes"
    machine.run(f"systemd-run --unit={UNIT} {given} sh -c {shlex.quote(inside)}")
    try:
        state = _wait(machine)
    except KeyboardInterrupt:  # what has run by then is worth hours
        _keep(machine, out)
        raise
    machine.run(f"mkdir -p {RESULT}; cp {RESULT}.log {RESULT}/run.log")
    print(machine.run(f"cat {RESULT}.log").stdout, end="")
    _keep(machine, out)
    return int(state["ExecMainStatus"])


def _wait(machine: Machine) -> dict[str, str]:
    began, told = time.monotonic(), list[str]()
    while (state := _state(machine))["SubState"] == "running":
        time.sleep(LOOK_SECONDS)  # another machine: there is no event to await
        now = machine.run(LATEST, check=False).stdout.splitlines()
        for line in [one for one in now if one not in told]:
            print(f"{(time.monotonic() - began) / 60:5.1f} min  {line.strip()}", flush=True)
        told = now
    return state


def _state(machine: Machine) -> dict[str, str]:
    told = machine.run(f"systemctl show --property=SubState,ExecMainStatus {UNIT}").stdout
    return dict(line.split("=", 1) for line in told.splitlines())


def _keep(machine: Machine, out: Path) -> None:
    names = " ".join(KEPT)
    machine.run(f"cd {RESULT} && tar cz --ignore-failed-read -f {RESULT}.tar.gz $(ls {names} 2>/dev/null)")
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=BytesIO(machine.get(f"{RESULT}.tar.gz"))) as archive:
        for one in KEPT:
            with contextlib.suppress(KeyError):  # it got no further
                if content := archive.extractfile(one):
                    (out / one).write_bytes(content.read())
