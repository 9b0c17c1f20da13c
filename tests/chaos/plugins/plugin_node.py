"""A node with a device plugin by the kubelet's own stub and the official DRA driver, each behind a proxy, and all that a test kills there."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from proto.node_devices import DeviceCount, read_node_devices
from proto.pod_snapshot import PodSnapshot
from tests.chaos.node.scene import has_ended, start_again
from tests.chaos.plugins.plugin_proxy import PluginProxy
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.cluster.dra.claims import CLAIMS, claim, device_class, reserve
from tests.cluster.dra.official_driver import CDI_DIR, cdi_files, find_driver, remove_cdi_files
from tests.node.away.stopped_temporal import server_pid
from tests.node.containerd_view import container_pid, runtime_spec
from tests.node.hardware.cpus import KEYS as CPU_KEYS
from tests.node.hardware.cpus import allowed
from tests.node.hardware.numa_plugin import RESOURCE, VARIABLE, find_numa_plugin
from tests.node.recordings.recorded_node import status
from tests.node.tempolet_node import pod_manifest
from tests.waiting import wait_until
from worker.devices.checkpoint_files import load_checkpoint
from worker.dra.claim_manager import load_accounts
from workflows.decide.cpus.state_file import STATE_FILE as CPU_STATE

KEYS: Final = {
    **CPU_KEYS,
    "featureGates": {"KubeletCrashLoopBackOffMax": True},
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
}
DEVICES: Final = ("Dev-1", "Dev-2")
VICTIMS: Final = ("worker", "temporal", "containerd", "plugin")


@dataclass(frozen=True, slots=True)
class Given:
    """What a pod's container has."""

    cpus: str
    device: str
    claim: str


@dataclass
class Plugin:
    """A program beside the node, and the proxy before it."""

    command: Sequence[str]
    log: Path
    proxy: PluginProxy
    socket: Callable[[], Path | None]
    """Where it listens; None: not yet."""
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it, once the one before has ended, and offer it to the node."""
        if self.process is not None:
            self.process.wait()
        if (left := self.socket()) is not None:
            left.unlink()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        wait_until(lambda: self.socket() is not None, lambda: f"it listens: {self.log.read_text()}")
        self.proxy.open()

    def kill(self) -> None:
        """Kill -9."""
        if self.process is not None:
            self.process.kill()


@dataclass
class PluginNode:
    """The node, its plugins, and what is done to them."""

    node: ClusterNode
    devices: Plugin
    driver: Plugin
    driver_name: str
    _back: dict[str, Callable[[], None]] = field(default_factory=dict)

    def kill(self, victim: str, plugin: Plugin) -> None:
        """Kill -9 of a victim; any thread may."""
        if victim == "worker":
            self.node.processes["worker"].kill()
        elif victim == "temporal":
            os.kill(server_pid(self.node.temporal), signal.SIGKILL)
        elif victim == "containerd":
            running = self.node.containerd.process.running()
            assert running, "containerd runs"
            os.kill(running.pid, signal.SIGKILL)
            wait_until(lambda: has_ended(running.pid), "containerd has ended")
        else:
            plugin.kill()

    def back(self, victim: str, plugin: Plugin) -> None:
        """Start the victim again."""
        if victim == "worker":
            self.node.processes.pop("worker").wait()
            self.node.start("worker")
        elif victim == "temporal":
            start_again(self.node.temporal)
        elif victim == "containerd":
            self.node.containerd.start()
        else:
            plugin.start()

    def until_registered(self) -> None:
        """Wait until the node has the devices from the socket that is open now: what it wrote down may be of the one before."""
        wait_until(self.devices.proxy.listed.is_set, "the devices are listed")
        count = DeviceCount(len(DEVICES), len(DEVICES))
        self.node.until(lambda: read_node_devices(self.node.root_dir).get(RESOURCE) == count, "the devices are there")

    def create(self, name: str, *, whole: bool) -> None:
        """Create a pod with a device; `whole`: with a CPU of its own and a claim, too."""
        manifest = pod_manifest(name, "trap 'exit 1' TERM; sleep 3600 & wait $!", automountServiceAccountToken=False)
        limits = {RESOURCE: "1"} | ({"cpu": "1", "memory": "16Mi"} if whole else {})
        resources: dict[str, Any] = {"limits": limits}
        if whole:
            resources["claims"] = [{"name": "gpu"}]
            manifest["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        manifest["spec"]["containers"][0]["resources"] = resources
        if whole:
            claim(self.node, name, self.driver_name)
        pod = self.node.create_pod(manifest)
        if whole:
            reserve(self.node, name, pod)

    def delete(self, *names: str) -> None:
        """Delete pods, and do not wait."""
        for name in names:
            self.node.api.delete(pods_path(name=name), gracePeriodSeconds=1)

    def given(self, pod: PodSnapshot) -> Given:
        """Return what the kernel and the runtime say that a pod's container has."""
        (container,) = pod.containers.values()
        spec = runtime_spec(self.node.containerd, container.container_id)
        environment = dict(one.partition("=")[::2] for one in spec["process"]["env"])
        claimed = next((value for name, value in environment.items() if name.startswith("claim_")), "")
        return Given(allowed(self.node, pod), environment.get(VARIABLE, ""), claimed)

    def restarted(self, pod: PodSnapshot) -> PodSnapshot:
        """Kill a pod's container, and wait until its next one is ready."""
        (container,) = pod.containers.values()
        os.kill(container_pid(self.node.containerd, container.container_id), signal.SIGKILL)
        return self.node.until_pod(
            pod.name,
            lambda one: one.ready and one.containers["main"].container_id != container.container_id,
            "its container runs again",
        )

    def on_disk(self) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Return CPUs and devices by the pods' uids, as the kubelet's files have them."""
        cpus = json.loads((self.node.root_dir / CPU_STATE).read_text()).get("entries") or {}
        devices = load_checkpoint(self.node.root_dir).assignments.pods
        return (
            {uid: one["main"] for uid, one in cpus.items()},
            {uid: sorted(one["main"][RESOURCE].ids) for uid, one in devices.items()},
        )

    def in_ledger(self) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Return the same, as the node's workflow has it."""
        given = {uid: one.containers["main"] for uid, one in status(self.node).assignments.items()}
        devices = {uid: sorted(each for some in one.devices for each in some.ids) for uid, one in given.items()}
        return (
            {uid: one.cpus for uid, one in given.items() if one.cpus},
            {uid: some for uid, some in devices.items() if some},
        )

    def left(self) -> list[str]:
        """Name what somebody still has; the ledger forgets pods that are gone when it is asked for the next one."""
        cpus, devices = self.on_disk()
        accounts = [one.claim.name for one in load_accounts(self.node.root_dir).values()]
        files = [one.name for one in cdi_files(self.driver_name)]
        return [*cpus, *devices, *accounts, *files]

    def forget_claim(self, name: str) -> None:
        """Delete a pod's claim."""
        self.node.api.delete(f"{CLAIMS}/{name}")


@contextlib.contextmanager
def plugin_node(node: ClusterNode, folder: Path, driver: str) -> Iterator[PluginNode]:
    """Run the plugins beside a node; nothing of them is left."""
    own = {name: folder / name for name in ("reg", "data", "dev")}
    for one in (*own.values(), own["data"] / driver, node.root_dir / "plugins_registry", CDI_DIR):
        one.mkdir(parents=True, exist_ok=True)
    registry, at = node.root_dir / "plugins_registry", own["dev"] / "s"

    def at_registration() -> Path | None:
        return next(iter(own["reg"].glob("*.sock")), None)

    driver_words = ["kubelet-plugin", "--kubeconfig", str(node.plane.admin_kubeconfig), "--drivername", driver]
    driver_words += ["--node-name", node.name, "--cdi-dir", str(CDI_DIR)]
    driver_words += ["--plugin-registration-path", str(own["reg"]), "--datadir", str(own["data"])]
    devices = Plugin(
        [str(find_numa_plugin()), "-folder", str(own["dev"]), "-socket", str(at), *(f"{one}=0" for one in DEVICES)],
        folder / "devices.log",
        PluginProxy(registry, "dev", lambda: at, at),
        lambda: at if at.exists() else None,
    )
    official = Plugin(
        [str(find_driver()), *driver_words],
        folder / "driver.log",
        PluginProxy(registry, "dra", lambda: at_registration() or own["reg"], own["data"] / driver / "dra.sock"),
        at_registration,
    )
    made = PluginNode(node, devices, official, driver)
    with device_class(node):
        try:
            for plugin in (devices, official):
                plugin.start()
            made.until_registered()
            yield made
            node.delete_all_pods()
        finally:
            for plugin in (devices, official):
                plugin.proxy.close()
                plugin.kill()
                if plugin.process is not None:
                    plugin.process.wait()
            remove_cdi_files(driver)
