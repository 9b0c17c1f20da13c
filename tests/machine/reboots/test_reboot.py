"""Does a node of `tempolet up` come back by itself: after a crash of any of its processes, a reboot, and pulled plugs?"""

import json
import os
import random
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.machine.machine import PATIENCE, Machine

UP_SECONDS: Final = 600.0
ROLES: Final = ("containerd", "temporal", "worker", "poller")
SEED: Final = int(os.environ.get("POWER_LOSSES_SEED", "1"))
LOSSES: Final = int(os.environ.get("POWER_LOSSES", "20"))
LATEST: Final = 150.0
"""Seconds after the power is on: a node is back within two thirds of it."""
CHECKED_EVERY: Final = 5
UNITS: Final = "ls /etc/systemd/system /etc/systemd/system/multi-user.target.wants | grep tempolet-up"
FACTS: Final = """
import json, pathlib, sqlite3
from worker.standalone.cri_client import CriClient
run = pathlib.Path("/run/tempolet")
with CriClient(run / "containerd.sock") as runtime:
    ready = [one.id for one in runtime.sandboxes() if one.state == 0]
    every = [one.id for one in runtime.sandboxes()]
    running = [one.metadata.name for one in runtime.running_containers()]
leases = [one.name for one in (run / "addresses").rglob("*") if one.name[:1].isdigit()]
cache = [one.name for one in pathlib.Path("/var/lib/cni/results").glob("tempolet0-*")]
namespaces = [one.name for one in (run / "containerd").rglob("cni-*")]
links = [one.name for one in pathlib.Path("/sys/class/net/tempolet0/brif").iterdir()]
database = sqlite3.connect("file:/var/lib/tempolet/temporal.db?mode=ro", uri=True)
whole = database.execute("PRAGMA integrity_check").fetchall()
print(json.dumps(dict(
    ready=ready, every=every, running=running, leases=leases, cache=cache, namespaces=namespaces, links=links, whole=whole
)))
"""
WITH_SECRET: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: secret, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: docker.io/library/busybox:1.37
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "trap 'exit 0' TERM; cat /secret/word /kept/word; echo $(date) >> /kept/word; sleep 36000 & wait"]
    volumeMounts: [{name: secret, mountPath: /secret}, {name: kept, mountPath: /kept}]
  volumes:
  - {name: secret, secret: {secretName: word}}
  - {name: kept, emptyDir: {}}
"""
SECRET: Final = """\
apiVersion: v1
kind: Secret
metadata: {name: word, namespace: default}
stringData: {word: "from the secret "}
"""


@pytest.mark.machine
def test_a_node_comes_back_by_itself(machine: Machine) -> None:
    """Each process after kill -9, without a restart of the pod; after a reboot and a power loss everything, with one restart each."""
    machine.put(SECRET.encode(), "/var/lib/tempolet/objects/default/secrets/word.yaml", 0o600)
    machine.put(WITH_SECRET.encode(), "/run/secret.yaml")
    machine.run("tempolet up /opt/tempolet/examples/hello.yaml /run/secret.yaml", UP_SECONDS)
    for role in ROLES:
        _kill(machine, role)
    _until_pods_run(machine, restarts=0)
    machine.reboot()
    _until_pods_run(machine, restarts=1)
    _assert_clean(machine)
    assert "the machine was restarted" in machine.run("tempolet history default/hello-machine").stdout
    machine.pull_plug()
    machine.boot()
    _until_pods_run(machine, restarts=2)
    _assert_clean(machine)
    told = machine.run("tempolet history default/hello-machine").stdout
    assert told.count("the machine was restarted") == 2, told
    again = machine.run("tempolet up", UP_SECONDS).stdout
    assert again.count("runs already") == len(ROLES), again
    machine.run("tempolet down --purge", UP_SECONDS)
    assert machine.run(UNITS, check=False).stdout == ""
    assert machine.run("ls /var/lib/tempolet /run/tempolet", check=False).stdout == ""
    assert machine.run("systemctl --failed --no-legend").stdout == ""


@pytest.mark.machine
def test_pulled_plugs_at_any_moment(machine: Machine) -> None:
    """While the machine boots, while the node starts, while it runs: in the end its pods run, and Temporal's database is whole."""
    machine.put(SECRET.encode(), "/var/lib/tempolet/objects/default/secrets/word.yaml", 0o600)
    machine.put(WITH_SECRET.encode(), "/run/secret.yaml")
    machine.run("tempolet up /opt/tempolet/examples/hello.yaml /run/secret.yaml", UP_SECONDS)
    moments = random.Random(SEED)
    for loss in range(1, LOSSES + 1):
        machine.pull_plug()
        machine.switch_on()
        if loss % CHECKED_EVERY:
            time.sleep(moments.uniform(0, LATEST))  # the moment
        else:
            machine.until_running()
            _until_pods_run(machine)
            _assert_clean(machine)
            time.sleep(moments.uniform(0, 5))
    machine.pull_plug()
    machine.boot()
    _until_pods_run(machine)
    _assert_clean(machine)
    restarts = [pod["restarts"] for pod in _pods(machine)]
    print(f"seed {SEED}: {LOSSES + 1} plugs, restarts {restarts}")
    assert all(1 <= one <= LOSSES + 1 for one in restarts)
    assert "the machine was restarted" in machine.run("tempolet history default/hello-machine").stdout


def _kill(machine: Machine, role: str) -> None:
    """Kill -9 a process and wait for another one."""
    show = f"systemctl show -P MainPID tempolet-up-{role}.service"
    before = machine.run(show).stdout
    machine.run(f"kill -9 {before}")
    _until(lambda: machine.run(show).stdout not in (before, "0\n"), f"another {role}")


def _until_pods_run(machine: Machine, restarts: int | None = None) -> None:
    def run() -> bool:
        pods = _pods(machine)
        ready = len(pods) == 2 and all(pod["phase"] == "Running" and pod["ready"] for pod in pods)
        return ready and (restarts is None or all(pod["restarts"] == restarts for pod in pods))

    _until(run, f"two pods with {restarts} restarts", lambda: machine.run("tempolet pods", check=False).stdout)


def _pods(machine: Machine) -> list[dict[str, Any]]:
    told = machine.run("tempolet pods -o json", check=False)
    pods: list[dict[str, Any]] = json.loads(told.stdout)["pods"] if told.code == 0 else []
    return pods


def _assert_clean(machine: Machine) -> None:
    """Nothing of a former boot is left, and the database is whole."""
    machine.put(FACTS.encode(), "/run/facts.py")
    facts: dict[str, Any] = {}

    def is_clean() -> bool:
        ran = machine.run("cd /opt/tempolet && .venv/bin/python /run/facts.py", check=False)
        facts.clear()
        facts.update(json.loads(ran.stdout) if ran.code == 0 else {"error": ran.stderr})
        counts = {name: len(facts.get(name, ())) for name in ("ready", "every", "running", "leases", "cache", "links")}
        return counts == dict.fromkeys(counts, 2)

    _until(is_clean, "two pods' sandboxes and no others", lambda: str(facts))
    assert facts["whole"] == [["ok"]], facts


def _until(true: Callable[[], bool], what: str, told: Callable[[], str] = lambda: "") -> None:
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until, f"waited {PATIENCE:.0f} s for {what}: {told()}"
        time.sleep(1)  # in the guest: there is no event to await
