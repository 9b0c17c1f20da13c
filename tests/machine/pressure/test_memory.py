"""Does real memory pressure end the right pod in time on a machine of 2 GiB, and does the kernel's OOM killer spare the node?

Natively, with a limit of the pods' cgroup in the place of a small machine: `tests/node/pressure/test_memory.py`.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.machine.hardware import Hardware
from tests.machine.machine import PATIENCE, Machine
from tests.machine.reboots.pods import LOG, UP_SECONDS, pods, until

MI: Final = 1 << 20
RATE: Final = int(os.environ.get("MACHINE_FILL_MIB", "50"))
"""MiB a second at most at which memory is filled."""
WITHIN: Final = 10.0
"""Seconds from the threshold until there is more again."""
ROOM: Final = int(WITHIN) * RATE + 60
"""MiB that programs can still have at the threshold, so that nobody is ended by the kernel before `WITHIN` is over."""
CONFIGURATION: Final = "/etc/kubelet.yaml"
NOBODY: Final = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard: {}
"""
IN_FORCE: Final = Path("/run/tempolet/config/kubelet.yaml")
"""The configuration that `tempolet up` gave the node, as JSON."""
MANIFESTS: Final = "/var/lib/tempolet/manifests"
PYTHON: Final = "/opt/tempolet/.venv/bin/python"
WATCH: Final = "/run/watch_memory.py"
WATCHED: Final = "/run/watched.json"
NODE: Final = """
for unit in worker poller temporal containerd; do
    cgroup=$(systemctl show -p ControlGroup --value tempolet-up-$unit.service)
    for one in $(find /sys/fs/cgroup$cgroup -name cgroup.procs -exec cat {} +); do
        echo "$unit $one $(cat /proc/$one/oom_score_adj) $(tr ' ' _ < /proc/$one/comm)"
    done
done
"""
"""The processes of the node: unit, id, oom_score_adj, name."""
SHIM: Final = "containerd-shim"
POD: Final = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 30
  containers:
  - name: main
    image: docker.io/library/busybox:1.37
    imagePullPolicy: IfNotPresent
    command: [sh, -c, {command}]
    resources: {{requests: {requests}}}
"""
HELD: Final = 150
HOLD: Final = f"""exec awk 'BEGIN {{ while (n < {HELD}) held[n++] = sprintf("%1048576s", ""); print "held"; fflush(); system("exec sleep 36000") }}'"""
FILL: Final = f"""awk 'BEGIN {{ for (;;) {{ for (i = 0; i < {RATE}; i += 10) held[n++] = sprintf("%1048576s", ""); system("sleep 0.1") }} }}'"""


@pytest.mark.machine
def test_memory_gets_short(make_machine: Callable[[Hardware], Machine]) -> None:
    """First with a threshold, by which the node ends the pod; then without one, when the kernel has to."""
    machine = make_machine(Hardware(memory_mib=2048))
    machine.boot()
    machine.put(NOBODY.encode(), CONFIGURATION)
    machine.put(pod("modest", HOLD, memory="200Mi"), "/run/modest.yaml")
    machine.run(f"tempolet up /run/modest.yaml --config {CONFIGURATION}", UP_SECONDS)
    until(
        lambda: "held" in machine.run("tempolet logs default/modest-machine", check=False).stdout,
        "modest holds its memory",
    )
    node = processes(machine, shims=True)
    scores = {unit: {score for one, _, score, _ in node if one == unit} for unit in ("worker", "poller", "temporal")}
    assert set().union(*scores.values()) == {"-999"}, node
    assert all(scores.values()), node
    runtime = {score for unit, _, score, _ in node if unit == "containerd"}
    assert runtime == {"-999", "-998"}, "containerd's, and of each shim one more"
    the_node_ends_the_pod(machine)
    the_kernel_ends_the_pod(machine)


def the_node_ends_the_pod(machine: Machine) -> None:
    """In time, and the kernel has nothing to do."""
    machine.put(Path(__file__).with_name("watch_memory.py"), WATCH)
    now = json.loads(machine.run(f"{PYTHON} {WATCH}").stdout)
    fill = min(300, now["free"] // MI - ROOM)
    assert fill >= 100, f"too little memory is free for this test: {now}"
    threshold = now["left"] // MI - fill
    print(
        f"\n{now['left'] // MI} MiB are available, {now['free'] // MI} MiB free for programs; the threshold is {threshold} MiB"
    )
    evict_below(machine, {"memory.available": f"{threshold}Mi"})
    node, before = processes(machine), oom_kills(machine)
    machine.run(f"setsid {PYTHON} {WATCH} {WATCHED} {threshold * MI} {PATIENCE} >/run/watch.log 2>&1 </dev/null &")
    until(lambda: machine.run(f"test -e {WATCHED}", check=False).code == 0, "the memory is watched")
    start(machine, "filler", FILL)
    until(lambda: watched(machine)["relieved"] > 0, "there is memory again", lambda: str(watched(machine)))
    filler = ended(machine, "filler")
    seen = watched(machine)
    took = seen["relieved"] - seen["crossed"]
    print(
        f"ended {took:.1f} s after the threshold; at least {seen['least'] // MI} MiB were left, {seen['free'] // MI} MiB free"
    )
    assert oom_kills(machine) == before
    assert processes(machine) == node
    assert (filler["phase"], filler["reason"]) == ("Failed", "Evicted"), filler
    assert took < WITHIN
    chosen = "this pod because it uses "
    for command in ("history", "explain"):
        told = " ".join(machine.run(f"tempolet {command} default/filler-machine").stdout.split())
        assert chosen in told, told
    assert (
        "the next would have been default/modest-machine"
        in machine.run("tempolet history default/filler-machine").stdout
    )
    modest = next(one for one in pods(machine) if one["name"] == "modest-machine")
    assert (modest["phase"], modest["restarts"]) == ("Running", 0), modest
    assert "evicted" not in machine.run("tempolet history default/modest-machine").stdout.lower()
    machine.run(f"rm {MANIFESTS}/filler.yaml")
    until(lambda: len(pods(machine)) == 1, "the filler is gone")


def the_kernel_ends_the_pod(machine: Machine) -> None:
    """By its OOM killer, which takes no process of the node; the worker tells of it. An emulated machine stalls meanwhile, so a watchdog may restart a service."""
    evict_below(machine, {})
    node, before = processes(machine), oom_kills(machine)
    start(machine, "hog", FILL)
    until(lambda: oom_kills(machine) > before, "the kernel has ended a process")
    ended(machine, "hog")
    assert "OOMKilled" in machine.run("tempolet history default/hog-machine").stdout
    said = "the machine is out of memory, and the kernel ended a process"
    until(lambda: machine.run(f"{LOG} | grep -c '{said}'", check=False).code == 0, "the worker tells of it")
    assert "awk" in machine.run(f"{LOG} | grep '{said}'").stdout
    killed = killed_processes(machine)
    assert killed, "the kernel's log names whom it ended"
    assert killed.isdisjoint(process for _, process, _, _ in node)


def evict_below(machine: Machine, thresholds: dict[str, str]) -> None:
    """Give the worker these hard thresholds."""
    configuration = json.loads(machine.get(str(IN_FORCE)))
    machine.put(json.dumps(configuration | {"evictionHard": thresholds}).encode(), str(IN_FORCE))
    machine.run("systemctl restart tempolet-up-worker", UP_SECONDS)


def pod(name: str, command: str, **requests: str) -> bytes:
    """Write a manifest."""
    return POD.format(name=name, command=json.dumps(command), requests=json.dumps(requests)).encode()


def start(machine: Machine, name: str, command: str) -> None:
    """Put a manifest into the folder, at once."""
    machine.put(pod(name, command), f"/run/{name}.yaml")
    machine.run(f"cp /run/{name}.yaml {MANIFESTS}/.{name}.new && mv {MANIFESTS}/.{name}.new {MANIFESTS}/{name}.yaml")


def ended(machine: Machine, name: str) -> dict[str, Any]:
    """Wait until a pod has ended; returns what `tempolet pods` says of it."""
    found: list[dict[str, Any]] = []

    def has_ended() -> bool:
        found[:] = [one for one in pods(machine) if one["name"] == f"{name}-machine" and one["phase"] == "Failed"]
        return bool(found)

    until(has_ended, f"{name} has ended", lambda: str(pods(machine)))
    return found[0]


def processes(machine: Machine, *, shims: bool = False) -> list[tuple[str, ...]]:
    """Return the processes that make the node, in order; shims come and go with pods."""
    found = (tuple(line.split()) for line in machine.run(NODE).stdout.splitlines())
    named = (one for one in found if len(one) == 4 and not one[3].startswith("runc"))
    return sorted(one for one in named if shims or one[3] != SHIM)


def oom_kills(machine: Machine) -> int:
    """Return how many processes the kernel's OOM killer has ended since the boot."""
    return int(machine.run("grep '^oom_kill ' /proc/vmstat").stdout.split()[1])


def killed_processes(machine: Machine) -> set[str]:
    """Return the ids of the processes that it has ended."""
    told = machine.run("journalctl --dmesg --output cat | grep -o 'Killed process [0-9]*'", check=False).stdout
    return {line.split()[-1] for line in told.splitlines()}


def watched(machine: Machine) -> dict[str, float]:
    """Return what the guest has written down."""
    found: dict[str, float] = json.loads(machine.get(WATCHED))
    return found
