"""Does a pod with CPUs, a device and a ResourceClaim start aligned on two NUMA nodes, and keep all of them whatever is killed?

Devices are of a plugin by the kubelet's own stub, claims of the official test driver. Control plane and Temporal run on this machine.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.api import Api
from tests.cluster.binaries import NoBinaries, no_control_plane
from tests.cluster.cluster_node import pods_path
from tests.cluster.dra.claims import claim, device_class, reserve
from tests.cluster.dra.official_driver import find_driver
from tests.machine.conformance.newer_containerd import start_newer_containerd
from tests.machine.hardware import HOST, Hardware
from tests.machine.joined.node import NAME, Joined, left_in, scope_of
from tests.machine.joined.plane import running_plane
from tests.machine.joined.served_programs import served
from tests.machine.machine import Machine
from tests.machine.numa.restarted_temporal import RestartedTemporal, restarted_temporal
from tests.machine.numa.test_alignment import cpus
from tests.machine.reboots.pods import until
from tests.node.hardware.numa_plugin import RESOURCE, VARIABLE, find_numa_plugin

HARDWARE: Final = Hardware(memory_mib=3072, sockets=2, cores=2, threads=2, numa_nodes=2, reaches_host=True)
"""Eight CPUs: node 0 has 0-3, node 1 has 4-7; 0 and 1 are threads of one core, and so on."""
KEYS: Final = {
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "cpuManagerReconcilePeriod": "1s",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node",
    "reservedSystemCPUs": "0,1",
    "systemReserved": {"memory": "412Mi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "512Mi"}}],
}
"""The first core is the system's."""
SLOW: Final = "apiVersion: tempolet.dev/v1alpha1\nkind: TempoletConfiguration\ntemporal: {awayAfter: 10m}\n"
"""Emulated processors are no outage of Temporal."""
DEVICES: Final = {"Far-1": 1, "Far-2": 1}
"""With their NUMA node: without them a container would be given CPUs of node 0."""
DRIVER: Final = "tempolet.cdi.k8s.io"
FOLDER: Final = "/opt/plugins"
PLUGIN_UNITS: Final = ("numa-plugin", "dra-driver")
SERVICES: Final = ("tempolet-worker", "tempolet-poller", "tempolet-node", "containerd", *PLUGIN_UNITS)
COMMAND: Final = "trap 'exit 1' TERM; sleep 3600 & wait $!"
NONE: Final = (
    ("cpu_manager_state", "entries"),
    ("memory_manager_state", "entries"),
)


@dataclass(frozen=True, slots=True)
class Given:
    """What is in force for the pod's container."""

    cpus: str
    memory: str
    quota: str
    devices: str
    claim: str


@dataclass(frozen=True, slots=True)
class Claimant:
    """The node, for whom makes claims."""

    api: Api
    name: str = NAME

    def create_pod(self, manifest: dict[str, Any], /) -> Any:
        """Create a pod."""
        return self.api.create(pods_path(), manifest)


@pytest.fixture
def temporal(tmp_path: Path) -> Iterator[RestartedTemporal]:
    """Run a Temporal of this test's own."""
    with restarted_temporal(tmp_path) as server:
        yield server


@pytest.fixture
def node(make_machine: Callable[[Hardware], Machine], temporal: RestartedTemporal, tmp_path: Path) -> Iterator[Joined]:
    """Boot a machine, and let it join with static policies; the plugins run beside the node."""
    if reason := no_control_plane():
        pytest.skip(reason)
    try:
        programs = {find_numa_plugin().name: find_numa_plugin(), find_driver().name: find_driver()}
    except NoBinaries as error:
        pytest.skip(str(error))
    (tmp_path / "plane").mkdir()
    with running_plane(tmp_path / "plane", KEYS) as plane:
        machine = make_machine(HARDWARE)
        machine.boot()
        start_newer_containerd(machine)
        made = Joined(machine, plane, f"{HOST}:{temporal.port}", "", left_in(machine))
        machine.put(SLOW.encode(), "/run/slow.yaml")
        made.join("--tempolet-config", "/run/slow.yaml")
        for name, program in programs.items():
            give(machine, name, program)
        identity(made)
        start_plugins(machine)
        with device_class(Claimant(plane.api)):
            yield made


@pytest.mark.machine
def test_a_pod_keeps_cpus_device_and_claim(node: Joined, temporal: RestartedTemporal) -> None:
    """All of NUMA node 1, over kill -9 of everything, and a restart of its container then and there; nothing is left when it is gone."""
    pod = start(node)
    given = in_force(node, pod)
    core = cpus(given.cpus)
    assert core in ({4, 5}, {6, 7}), given
    assert (given.memory, given.quota.split()[0]) == ("1", "max"), given
    assert given.devices in DEVICES, given
    assert given.claim == "true", given
    assert written(node, "cpu_manager_state")["entries"][pod["metadata"]["uid"]]["main"] == given.cpus

    told = explained(node)
    assert f"container main has {RESOURCE} {given.devices} (NUMA node 1): it asks for 1" in told
    assert "container main was aligned to NUMA node 1: topologyManagerPolicy is single-numa-node" in told
    assert (
        f"container main has device device-00 of pool {NAME} of driver {DRIVER}: allocated for ResourceClaim one"
        in told
    )

    kill_all(node.machine, temporal)
    node.until("aligned", lambda one: ready(one) and restarts(one) == 0, "it runs on")
    assert in_force(node, pod) == given

    kill_all(node.machine, temporal)
    node.machine.run(f"kill -9 {process(node, pod)}")
    pod = node.until("aligned", lambda one: ready(one) and restarts(one) == 1, "its container runs again")
    assert in_force(node, pod) == given

    node.until_gone("aligned")
    until(lambda: not left(node), "nothing is left", lambda: str(left(node)))


def give(machine: Machine, name: str, program: Path) -> None:
    """Put a program into the machine, which is too large for its shell's port."""
    with served(program.parent) as url:
        machine.run(f"mkdir -p {FOLDER}; curl -sSf -o {FOLDER}/{name} {url}/{name} && chmod 755 {FOLDER}/{name}")


def identity(node: Joined) -> None:
    """Give the driver an administrator's kubeconfig, as the machine reaches the API server."""
    admin = json.loads(node.plane.admin_kubeconfig.read_text())
    user, cluster = admin["users"][0]["user"], admin["clusters"][0]["cluster"]
    files = {"ca.crt": cluster["certificate-authority"], "crt": user["client-certificate"], "key": user["client-key"]}
    for name, file in files.items():
        node.machine.put(Path(file), f"{FOLDER}/{name}", 0o600)
    cluster |= {"server": f"https://{HOST}:{node.plane.port}", "certificate-authority": f"{FOLDER}/ca.crt"}
    user |= {"client-certificate": f"{FOLDER}/crt", "client-key": f"{FOLDER}/key"}
    node.machine.put(json.dumps(admin).encode(), f"{FOLDER}/kubeconfig", 0o600)


def start_plugins(machine: Machine) -> None:
    """Start them as units that systemd starts again."""
    devices = " ".join(f"{name}={node}" for name, node in DEVICES.items())
    driver = f"--kubeconfig {FOLDER}/kubeconfig --drivername {DRIVER} --node-name {NAME}"
    unit = "systemd-run -q -p Restart=always -p RestartSec=1 -p StartLimitIntervalSec=0 --unit"
    machine.run(
        f"mkdir -p /var/lib/kubelet/plugins/{DRIVER}; {unit} dra-driver {FOLDER}/{find_driver().name} kubelet-plugin {driver}"
    )
    machine.run(f"{unit} numa-plugin {FOLDER}/{find_numa_plugin().name} {devices}")


def start(node: Joined) -> Any:
    """Create a pod and its claim, as the scheduler leaves them; returns it once it is ready."""
    claimant = Claimant(node.plane.api)
    until(lambda: allocatable(node).get(RESOURCE) == str(len(DEVICES)), "the node has the devices")
    claim(claimant, "one", DRIVER)
    resources = {"limits": {"cpu": "2", "memory": "64Mi", RESOURCE: "1"}, "claims": [{"name": "gpu"}]}
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    pod = node.create("aligned", COMMAND, resources, resourceClaims=claims, automountServiceAccountToken=False)
    reserve(claimant, "one", pod)
    return node.until("aligned", ready, "it is ready")


def allocatable(node: Joined) -> dict[str, str]:
    """Return what the scheduler may give on the node: it sends no pod of a resource that the node does not have."""
    found: dict[str, str] = node.plane.api.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"]
    return found


def kill_all(machine: Machine, temporal: RestartedTemporal) -> None:
    """Kill -9 of every process but the pod's; all of them start again."""
    before = main_processes(machine)
    assert "0" not in before, "all run"
    temporal.kill()
    machine.run(f"kill -9 {' '.join(before)}")
    temporal.start()
    until(lambda: not {"0", *before} & set(main_processes(machine)), "all run again")


def main_processes(machine: Machine) -> list[str]:
    """Return the ids of the services' processes; 0 for one that does not run."""
    units = " ".join(f"{one}.service" for one in SERVICES)
    return machine.run(f"systemctl show --property MainPID --value {units}").stdout.split()


def in_force(node: Joined, pod: Any) -> Given:
    """Return what the kernel and the container's environment say."""
    cgroup = f"/sys/fs/cgroup{scope_of(pod)}"
    cpus_given, memory, quota = (
        node.machine.run(f"head -n 1 {cgroup}/{one}").stdout.strip()
        for one in ("cpuset.cpus", "cpuset.mems", "cpu.max")
    )
    words = node.machine.run(f"tr '\\0' '\\n' < /proc/{process(node, pod)}/environ").stdout.splitlines()
    environment = dict(one.partition("=")[::2] for one in words)
    return Given(cpus_given, memory, quota, environment.get(VARIABLE, ""), environment.get("claim_one_r", ""))


def process(node: Joined, pod: Any) -> int:
    """Return the id of the container's first process."""
    return int(node.machine.run(f"head -n 1 /sys/fs/cgroup{scope_of(pod)}/cgroup.procs").stdout)


def explained(node: Joined) -> str:
    """Return what `tempolet explain` says of the pod, on one line."""
    told = node.machine.run(f"TEMPORAL_ADDRESS={node.temporal} tempolet explain default/aligned").stdout
    return " ".join(told.split())


def written(node: Joined, file: str) -> Any:
    """Read one of the kubelet's state files."""
    return json.loads(node.machine.get(f"/var/lib/kubelet/{file}"))


def left(node: Joined) -> list[str]:
    """List what the kubelet's files still know of pods.

    Not the driver's CDI file: it forgets its claims when it is killed, and removes then nothing for them.
    """
    found = [name for name, key in NONE if written(node, name).get(key)]
    devices = written(node, "device-plugins/kubelet_internal_checkpoint")["Data"]["PodDeviceEntries"]
    claims = json.loads(written(node, "dra_manager_state")["Data"])["ClaimInfoStateList"]
    return [*found, *(["devices"] if devices else []), *(["claims"] if claims else [])]


def ready(pod: Any) -> bool:
    """Report whether a pod is ready."""
    conditions = pod["status"].get("conditions") or []
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


def restarts(pod: Any) -> int:
    """Return the restarts of the pod's container."""
    return int(pod["status"]["containerStatuses"][0]["restartCount"])
