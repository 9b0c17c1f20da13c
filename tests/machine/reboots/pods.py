"""Pods of a node of `tempolet up` in a guest: two that reboots are tried with, and ways to wait until they run and nothing else is left."""

import json
from collections.abc import Callable
from typing import Any, Final

from tests.machine.machine import PATIENCE, Machine
from tests.waiting import wait_until

UP_SECONDS: Final = PATIENCE
HISTORY: Final = "tempolet history default/hello-machine"
RESTARTED: Final = "the machine was restarted"
LOG: Final = "journalctl --quiet --no-pager --output=cat --unit=tempolet-up-worker"
"""What shows the worker's log, of all boots."""
_PODS: Final = 2
COUNTED: Final = ("ready", "every", "running", "leases", "cache", "namespaces", "links", "folders")
FACTS: Final = """
# what a node has, by its run folder, its state folder and its bridge
import json, pathlib, re, sqlite3, sys
from worker.standalone.cri_client import CriClient
run, state, bridge = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
with CriClient(run / "containerd.sock") as runtime:
    ready = [one.id for one in runtime.sandboxes() if one.state == 0]
    every = [one.id for one in runtime.sandboxes()]
    running = [one.metadata.name for one in runtime.running_containers()]
leases = [one.name for one in (run / "addresses").rglob("*") if one.name[:1].isdigit()]
cache = [one.name for one in pathlib.Path("/var/lib/cni/results").glob(f"{bridge}-*")]
namespaces = [one.name for one in (run / "containerd").rglob("netns/cni-*")]
links = [one.name for one in pathlib.Path(f"/sys/class/net/{bridge}/brif").iterdir()]
folders = [one.name for one in (state / "node/pods").iterdir()]
points = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
mounts = sorted(re.sub("[0-9a-f]{64}|cni-.*", "ID", one) for one in points if one.startswith((f"{run}/", f"{state}/")))
database = sqlite3.connect(f"file:{state}/temporal.db?mode=ro", uri=True)
whole = database.execute("PRAGMA integrity_check").fetchall()
print(json.dumps(dict(
    ready=ready, every=every, running=running, leases=leases, cache=cache, namespaces=namespaces, links=links, folders=folders,
    mounts=mounts, whole=whole
)))
"""
WITH_VOLUMES: Final = """\
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


def start(machine: Machine, *options: str) -> None:
    """Start a node with a web server, and a pod with a Secret and an emptyDir."""
    machine.put(SECRET.encode(), "/var/lib/tempolet/objects/default/secrets/word.yaml", 0o600)
    machine.put(WITH_VOLUMES.encode(), "/run/secret.yaml")
    machine.run(" ".join(["tempolet up /opt/tempolet/examples/hello.yaml /run/secret.yaml", *options]), UP_SECONDS)
    until_pods_run(machine, restarts=0)


def pods(machine: Machine) -> list[dict[str, Any]]:
    """Return what `tempolet pods` says; nothing if it fails."""
    told = machine.run("tempolet pods -o json", check=False)
    found: list[dict[str, Any]] = json.loads(told.stdout)["pods"] if told.code == 0 else []
    return found


def restarts(machine: Machine) -> dict[str, int]:
    """Return the restart counts by the pods' names."""
    return {pod["name"]: pod["restarts"] for pod in pods(machine)}


def until_pods_run(machine: Machine, restarts: int | None = None, count: int = _PODS) -> None:
    """Wait until so many pods are ready, each with so many restarts, and there are no others."""

    def run() -> bool:
        found = pods(machine)
        ready = len(found) == count and all(pod["phase"] == "Running" and pod["ready"] for pod in found)
        return ready and (restarts is None or all(pod["restarts"] == restarts for pod in found))

    until(run, f"{count} pods with {restarts} restarts", lambda: machine.run("tempolet pods", check=False).stdout)


def until_clean(machine: Machine) -> list[str]:
    """Wait until nothing of a former boot is left, and check that Temporal's database is whole; returns the node's mount points."""
    machine.put(FACTS.encode(), "/run/facts.py")
    facts: dict[str, Any] = {}

    def is_clean() -> bool:
        ran = machine.run(
            "cd /opt/tempolet && .venv/bin/python /run/facts.py /run/tempolet /var/lib/tempolet tempolet0", check=False
        )
        facts.clear()
        facts.update(json.loads(ran.stdout) if ran.code == 0 else {"error": ran.stderr})
        return {name: len(facts.get(name, ())) for name in COUNTED} == dict.fromkeys(COUNTED, _PODS)

    until(is_clean, "what two pods have, and nothing else", lambda: str(facts))
    assert facts["whole"] == [["ok"]], facts
    mounts: list[str] = facts["mounts"]
    return mounts


def until(true: Callable[[], bool], what: str, told: Callable[[], str] = lambda: "") -> None:
    """Wait for something in the guest."""
    wait_until(true, lambda: f"{what}: {told()}", PATIENCE, looks=(1, 1))
