"""Runs the official node tests (test/e2e_node of Kubernetes) on a machine of their own, with the real kubelet or with ours.

`make test-node-official`: builds what is missing, makes the machine, runs the chosen tests, says which of those that the kubelet passes
were not passed, and leaves only logs and the junit file.
"""

import contextlib
import json
import re
import shutil
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from proto.temporal.names import NAMESPACE
from tests.cluster.binaries import KUBELET, OFFICIAL_TESTS, find_binaries
from tests.cluster.conformance.conformance_run import ConformanceFailed, named_in, read_result
from tests.cluster.conformance.official_images import OfficialImages
from tests.cluster.node_tests.huge_pages import huge_pages_kept
from tests.cluster.node_tests.node_machine import ADDRESS, NodeMachine
from tests.cluster.node_tests.node_runtime import SETTINGS, UNIT
from tests.cluster.node_tests.program import find_node_tests
from tests.node.hardware.sample_plugin import FILES, find_plugin
from tests.worker.daemon.systemd_machine import CHECKOUT
from worker.machine import kernel_tunables
from worker.standalone.machine.programs import PARTS_VARIABLE, default_parts_dir

KUBELET_PASSED: Final = Path(__file__).parent / "kubelet-passed.txt"
SKIPPED: Final = "skipped"
OUT: Final = CHECKOUT / ".build" / "node-tests"
PEERS: Final = ("tempolet", "kubelet")
FOCUS: Final = r"\] CriticalPod \["
STARTS_WITHIN: Final = 300.0
"""Seconds in which the tests want the first healthy kubelet."""
PREPARES_WITHIN: Final = 1800.0
"""Seconds for containerd, the images and Temporal; an emulated machine took more than 300 beside other work."""
TIMEOUT: Final = "80m"
KUBELET_CONFIGURATION: Final[dict[str, Any]] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cgroupDriver": "cgroupfs",
    "cgroupRoot": "/",
    "podCIDR": "10.100.0.0/24",
    "volumeStatsAggPeriod": "10s",
    "fileCheckFrequency": "10s",
    "evictionPressureTransitionPeriod": "30s",
    "evictionHard": {"memory.available": "250Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
    "evictionMinimumReclaim": {"nodefs.available": "5%", "nodefs.inodesFree": "5%"},
    "serializeImagePulls": False,
    "failSwapOn": False,
    "failCgroupV1": False,
}
"""The tests' own default (test/e2e_node/jenkins/default-kubelet-config.yaml), and what a machine with cgroup v1 needs."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tests, and on whose node."""

    peer: str = "tempolet"
    focus: str = FOCUS
    skip: str = ""
    out: Path | None = None
    timeout: str = TIMEOUT
    prepull: bool = False
    huge_pages: bool = False
    """Whether the tests pull every image before the first test, as they do by default."""


def run_node_tests(choice: Choice) -> int:
    """Make the machine, run the tests, remove the machine; returns an exit code. Raises ConformanceFailed and NoBinaries."""
    programs = find_binaries((*KUBELET, *OFFICIAL_TESTS))
    tests = find_node_tests()
    find_plugin()  # is built out here, and found in the machine
    out = (choice.out or OUT / choice.peer).absolute()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    OfficialImages(OUT / "images", programs).build()
    begun = time.monotonic()
    with huge_pages_kept(), NodeMachine(out / "machine", huge_pages=choice.huge_pages) as machine:
        try:
            _start_runtime(machine, programs, choice)
            _give_kubelet(machine, programs, choice)
            _run(machine, tests, out, choice)
        finally:
            _keep_logs(machine, out)
            _remove_device_files()
    shutil.rmtree(out / "machine")
    states = _states(out)
    owed = [
        name for name in named_in(KUBELET_PASSED) if _selects(choice, name) and states.get(name, SKIPPED) != SKIPPED
    ]
    result = read_result(out, owed)
    skipped = sorted(name for name, state in states.items() if state == SKIPPED and _selects(choice, name))
    if not result.ran and not skipped:
        raise ConformanceFailed(f"no test is selected: {choice.focus}")
    said = [*(f"skipped: {name}" for name in skipped), *result.lines()]
    said.append(f"{choice.peer}: {(time.monotonic() - begun) / 60:.1f} min; log and junit file in {out}")
    (out / "summary").write_text("\n".join([*said, ""]))
    print("\n".join(said))
    return 1 if result.missed else 0


def _selects(choice: Choice, name: str) -> bool:
    return bool(re.search(choice.focus, name)) and not (choice.skip and re.search(choice.skip, name))


def _states(out: Path) -> dict[str, str]:
    """Return the state of every test that exists on this machine: some do with cgroup v2 alone. One that skipped itself is neither passed nor owed."""
    cases = ET.parse(out / "junit_01.xml").iter("testcase")
    return {case.get("name", "").removeprefix("[It] "): case.get("status", "") for case in cases}


def _start_runtime(machine: NodeMachine, programs: Path, choice: Choice) -> None:
    """Start containerd and what else the node needs, as a unit."""
    words = [sys.executable, "-m", "tests.cluster.node_tests.node_runtime", str(OUT / "images"), str(programs)]
    words += ["temporal"] if choice.peer == "tempolet" else []
    properties = ["Type=oneshot", "RemainAfterExit=yes", f"WorkingDirectory={CHECKOUT}"]
    properties += [f"Environment=PATH={machine.path}", f"Environment={PARTS_VARIABLE}={default_parts_dir()}"]
    properties += [f"Standard{which}=append:{machine.log.with_name('runtime.log')}" for which in ("Output", "Error")]
    given = [word for one in properties for word in ("--property", one)]
    machine.inside("systemd-run", f"--unit={UNIT}", *given, *words, seconds=PREPARES_WITHIN)
    state = machine.show(f"{UNIT}.service")["ActiveState"]
    if state != "active":
        raise ConformanceFailed(f"{UNIT} is {state}:\n{machine.log.with_name('runtime.log').read_text()[-3000:]}")


def _give_kubelet(machine: NodeMachine, programs: Path, choice: Choice) -> None:
    """Put the program that the tests start into the machine."""
    if choice.peer == "kubelet":
        (machine.programs / "kubelet").symlink_to(programs / "kubelet")
        return
    for name, value in kernel_tunables.EXPECTED.items():  # a kubelet sets them; ours leaves them to the machine
        Path("/proc/sys", name).write_text(str(value))
    own = {
        "apiVersion": "tempolet.dev/v1alpha1",
        "kind": "TempoletConfiguration",
        "temporal": {
            "address": SETTINGS.temporal.address,
            "namespace": NAMESPACE,
            "databaseFile": str(SETTINGS.temporal.linked_database),
        },
    }
    file = machine.programs / "tempolet.json"
    file.write_text(json.dumps(own))
    launch = f"{sys.executable} -m tests.cluster.node_tests.kubelet_launcher {file}"
    machine.write_program("kubelet", f'#!/bin/sh\ncd {CHECKOUT} && PATH={machine.path} exec {launch} "$@"\n')


def _run(machine: NodeMachine, tests: Path, out: Path, choice: Choice) -> None:
    """Run the tests. They write their own files, such as kubelet-config, into the folder that they run in."""
    within = out / "within"
    within.mkdir()
    (within / "kubelet.json").write_text(json.dumps(KUBELET_CONFIGURATION))
    command: list[str | Path] = [tests, "--test.timeout=24h", f"--ginkgo.focus={choice.focus}"]
    command += [f"--ginkgo.skip={choice.skip}"] if choice.skip else []
    command += ["--ginkgo.no-color", "--ginkgo.v", f"--ginkgo.timeout={choice.timeout}", f"--report-dir={out}"]
    command += [
        f"--k8s-bin-dir={machine.programs}",
        f"--prepull-images={str(choice.prepull).lower()}",
        f"--server-start-timeout={STARTS_WITHIN:.0f}s",
    ]
    command += [f"--container-runtime-endpoint={SETTINGS.endpoint}", "--container-runtime-process-name=containerd"]
    command += [f"--kubelet-config-file={within / 'kubelet.json'}", f"--kubelet-flags=--node-ip={ADDRESS}"]
    with machine.running(*command, within=within, log=out / "log") as running:
        running.wait()
    if not (out / "junit_01.xml").exists():
        raise ConformanceFailed(f"no result of the node tests: see {out / 'log'}")


def _remove_device_files() -> None:
    """Remove the mount points of the sample plugin's devices: /tmp is that of the host."""
    for place in FILES:
        with contextlib.suppress(OSError):  # another machine's pod has it mounted
            place.rmdir()


def _keep_logs(machine: NodeMachine, out: Path) -> None:
    for log in machine.log.parent.glob("*.log"):
        shutil.copyfile(log, out / log.name)
