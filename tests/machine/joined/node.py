"""A booted machine that is a node of a cluster, as a test sees it: its pods in the API, their cgroups in the machine."""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.temporal.names import NAMESPACE
from tests.cluster import bootstrap_tokens
from tests.cluster.cluster_node import pods_path
from tests.cluster.control_plane import ControlPlane
from tests.conftest import temporal_program
from tests.machine.hardware import HOST
from tests.machine.machine import PATIENCE, Machine
from tests.machine.shell import Ran
from tests.node.tempolet_node import pod_manifest
from tests.waiting import wait_until

NAME: Final = "machine"
LOOKS: Final = (0.5, 0.5)
"""Seconds: the emulated machine needs this machine's processors."""
JOIN_SECONDS: Final = 900.0
FILES: Final = (
    *("cpu.max", "cpu.weight", "memory.max", "memory.low", "memory.min", "memory.high", "memory.swap.max"),
    *("memory.oom.group", "pids.max", "pids.current", "pids.events", "hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"),
)
END_SANDBOXES: Final = """
cd /opt/tempolet && .venv/bin/python -c '
from pathlib import Path
from worker.standalone.cri_client import CriClient
with CriClient(Path("/run/containerd/containerd.sock")) as runtime:
    print(runtime.remove_sandboxes(runtime.sandboxes()))
'
findmnt -rno TARGET | grep ^/var/lib/kubelet/ | sort -r | xargs -r umount
"""
LEFT: Final = """
findmnt -rno TARGET | sort
ls /run/netns 2>/dev/null
find /sys/fs/cgroup -type d | grep -E 'kubepods' | sort
ps -eo args | grep -E '[t]empolet|[s]leep 3600' | sort
ls -d /etc/tempolet /etc/kubernetes/* /var/lib/kubelet /usr/local/bin/tempolet /etc/systemd/system/tempolet-* /etc/systemd/system/kubelet.service 2>/dev/null
systemctl --no-pager list-units --all --plain --no-legend 'kubepods*' 'tempolet-*' | awk '{print $1}'
"""
"""What `leave` must leave as it was: mounts, namespaces, cgroups, processes, files and units."""
MERGED: Final = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Joined:
    """The node."""

    machine: Machine
    plane: ControlPlane
    temporal: str
    """Temporal's address, from inside the machine."""
    identity: str
    """curl's option for an administrator's certificate."""
    left_before: list[str]
    """What there was before it joined."""

    def join(self, *options: str, check: bool = True) -> Ran:
        """Run `tempolet join`, as kubeadm's command says it, and wait until the node is Ready."""
        words = [f"https://{HOST}:{self.plane.port}", "--token-file", "-", "--temporal", self.temporal]
        words += ["--ca-hash", bootstrap_tokens.ca_hash(self.plane), "--wait", f"{JOIN_SECONDS:g}", *options]
        command = f"echo {bootstrap_tokens.TOKEN} | tempolet join {' '.join(words)}"
        return self.machine.run(command, JOIN_SECONDS + 60, check=check)

    def create(self, name: str, command: str, resources: Mapping[str, Any] | None = None, **spec: Any) -> Any:
        """Bind a pod to the node; `resources` are its container's."""
        manifest = pod_manifest(name, command, nodeName=NAME, **spec)
        if resources:
            manifest["spec"]["containers"][0]["resources"] = resources
        return self.plane.api.create(pods_path(), manifest)

    def until(self, name: str, holds: Callable[[Any], Any], what: str) -> Any:
        """Wait until a pod of the API is so; raises TimeoutError with its last state."""
        pod: Any = None

        def is_so() -> bool:
            nonlocal pod
            pod = self.plane.api.find(pods_path(name=name))
            return pod is not None and bool(holds(pod))

        def told() -> str:
            told = f"TEMPORAL_ADDRESS={self.temporal} tempolet history default/{name} 2>&1 | tail -40"
            said = self.machine.run(told, check=False).stdout
            return f"{name}: {what}; it is {json.dumps(pod, indent=1)[-3000:]}\n{said}"

        wait_until(is_so, told, PATIENCE, LOOKS)
        return pod

    def until_gone(self, name: str) -> None:
        """Delete a pod, and wait until the API has it no more."""
        self.plane.api.delete(pods_path(name=name))
        wait_until(lambda: self.plane.api.find(pods_path(name=name)) is None, f"the API has no {name}", PATIENCE, LOOKS)

    def events(self, name: str) -> list[str]:
        """Return the messages of a pod's events."""
        found = self.plane.api.get(f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}")
        return [str(one["message"]) for one in found["items"]]

    def end_pods(self) -> None:
        """End whatever a test has left, when no service runs: pods, workflows, sandboxes, the Node."""
        for pod in self.plane.api.get(pods_path())["items"]:
            self.plane.api.delete(pods_path(name=pod["metadata"]["name"]), gracePeriodSeconds=0)
        address = f"127.0.0.1:{self.temporal.rpartition(':')[2]}"
        words = [
            "--address",
            address,
            "--namespace",
            NAMESPACE,
            "--query",
            f"PodNode = '{NAME}' AND ExecutionStatus = 'Running'",
        ]
        terminate = [temporal_program(), "workflow", "terminate", *words, "--reason", "left", "--yes"]
        subprocess.run(terminate, check=False, capture_output=True)
        self.machine.run(END_SANDBOXES, check=False)
        self.plane.api.delete(f"/api/v1/nodes/{NAME}")

    def running(self, name: str) -> Any:
        """Wait until a pod runs."""
        return self.until(name, lambda pod: pod["status"].get("phase") == "Running", "it runs")

    def resize(self, name: str, resources: Mapping[str, Any]) -> None:
        """Ask for other resources of a running container, as `kubectl patch --subresource resize` does."""
        body = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        self.plane.api.call("PATCH", f"{pods_path(name=name)}/resize", body, kind=MERGED)

    def figures(self, cgroup: str) -> dict[str, str]:
        """Read the files of a cgroup."""
        read = f"cd /sys/fs/cgroup{cgroup} && grep -s . {' '.join(FILES)}"
        lines = self.machine.run(read, check=False).stdout.splitlines()
        return dict(line.split(":", 1) for line in lines)

    def left(self) -> list[str]:
        """List what there is of nodes in the machine."""
        return left_in(self.machine)

    def ask(self, path: str) -> str:
        """Read from the node's API on port 10250."""
        return self.machine.run(f"curl -sSk --fail-with-body {self.identity} https://127.0.0.1:10250{path}").stdout


def left_in(machine: Machine) -> list[str]:
    """List what there is of nodes in a machine."""
    return machine.run(LEFT, check=False).stdout.splitlines()


def slice_of(pod: Mapping[str, Any]) -> str:
    """Return a pod's cgroup by the kubelet's rules, with the systemd driver."""
    tier = {"Guaranteed": "", "Burstable": "burstable", "BestEffort": "besteffort"}[pod["status"]["qosClass"]]
    above = ["kubepods.slice", *([f"kubepods-{tier}.slice"] if tier else [])]
    uid = pod["metadata"]["uid"].replace("-", "_")
    return "/" + "/".join([*above, f"{above[-1].removesuffix('.slice')}-pod{uid}.slice"])


def scope_of(pod: Mapping[str, Any]) -> str:
    """Return the cgroup of a pod's only container, as runc names it."""
    container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    return f"{slice_of(pod)}/cri-containerd-{container}.scope"
