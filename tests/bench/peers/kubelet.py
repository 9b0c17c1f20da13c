"""The real kubelet 1.36.3, standalone: static pods from a folder, no API server.

Its configuration is the default except for what this machine and fairness need, each with its reason. Its changes to the machine
outside its own folders (kernel settings, links to logs, the folder of device plugins) are restored afterwards.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from tests.bench.manifests import Pod
from tests.bench.peers.peer import ManifestPeer
from tests.bench.peers.place import NODE
from tests.free_ports import free_ports
from worker.standalone.machine.leftovers import CGROUP_MOUNT
from worker.standalone.machine.process import Command
from worker.standalone.machine.process_log import last_lines

VARIABLE: Final = "TEMPOLET_KUBELET"
BUILD: Final = Path(__file__).parents[1] / "kubelet" / "build.sh"
BUILT: Final = Path(__file__).parents[3] / ".build" / "kubelet"
READY_SECONDS: Final = 60
TUNABLES: Final = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""The settings that the kubelet makes on every node (container_manager_linux.go)."""
DEVICE_PLUGINS: Final = Path("/var/lib/kubelet/device-plugins")  # the only folder of the kubelet without a flag
LOG_LINKS: Final = Path("/var/log/containers")  # another
OUTSIDE: Final = (DEVICE_PLUGINS, DEVICE_PLUGINS.parent, LOG_LINKS)


class NoKubelet(Exception):
    """There is no kubelet to compare with; says why and how to get one."""


def find_kubelet(*, build: bool) -> Path:
    """Find the kubelet: $TEMPOLET_KUBELET, then .build/kubelet/kubelet, which is built with Go if `build`.

    Raises NoKubelet. The first build takes about 6 minutes on 2 cores.
    """
    if chosen := os.environ.get(VARIABLE):
        if os.access(chosen, os.X_OK):
            return Path(chosen)
        raise NoKubelet(f"{VARIABLE} names {chosen}, which is no program")
    if os.access(BUILT / "kubelet", os.X_OK):
        return BUILT / "kubelet"
    if not build or shutil.which("go") is None:
        raise NoKubelet(
            f"no {BUILT / 'kubelet'}: set {VARIABLE} to one, or install Go >= 1.26 and let the bench build it"
        )
    print("building the kubelet with Go (about 6 minutes, once)", flush=True)
    if subprocess.run([BUILD, BUILT], check=False).returncode:
        raise NoKubelet(f"{BUILD} failed; its output above says why")
    return BUILT / "kubelet"


class Kubelet(ManifestPeer):
    """One standalone kubelet."""

    name: ClassVar[str] = "kubelet"
    number: ClassVar[int] = 1
    processes: ClassVar[tuple[str, ...]] = ("kubelet",)

    def __init__(self, program: Path) -> None:
        super().__init__()
        self._program = program
        self._tunables: dict[str, str] = {}
        self._read_only_port = 0
        self._made_by_us = [folder for folder in OUTSIDE if not folder.exists()]

    def begin(self) -> None:
        """Start it and wait for its healthz; raises NoKubelet if it does not start."""
        if (DEVICE_PLUGINS / "kubelet.sock").exists():
            raise NoKubelet(f"{DEVICE_PLUGINS}/kubelet.sock is there: another kubelet lives on this machine")
        self._tunables = {name: Path("/proc/sys", name).read_text() for name in TUNABLES}
        make_cgroup(self.place.cgroup)
        api_port, healthz_port, self._read_only_port = free_ports(3)
        config = self.place.home / "kubelet.json"
        config.write_text(json.dumps(self._configuration(api_port, healthz_port), indent=1))
        argv = [self._program, "--config", config, "--root-dir", self.place.root_dir]
        argv += ["--cert-dir", self.place.home / "pki", *self.flags()]
        log = self.place.logs / "kubelet.log"
        self.place.process("kubelet").start(Command([str(word) for word in argv], log, {}))
        _wait_for_healthz(healthz_port, log)

    def flags(self) -> list[str]:
        """Return the flags that identify it."""
        return ["--hostname-override", NODE]

    async def pod_status(self, pod: Pod) -> Mapping[str, Any]:
        """Read the pod from the kubelet's own list."""
        listed = await asyncio.to_thread(_read_json, f"http://127.0.0.1:{self._read_only_port}/pods")
        found: Mapping[str, Any] = next(
            one["status"] for one in listed["items"] if one["metadata"]["name"] == self.pod_name(pod)
        )
        return found

    def clear(self) -> list[str]:
        """Also restore what the kubelet changed on the machine."""
        forced = super().clear()
        for name, value in self._tunables.items():
            Path("/proc/sys", name).write_text(value)
        self._tunables = {}
        if LOG_LINKS.is_dir():
            for link in LOG_LINKS.iterdir():
                if link.is_symlink() and link.readlink().is_relative_to(self.place.home):
                    link.unlink()
        (DEVICE_PLUGINS / "kubelet.sock").unlink(missing_ok=True)
        for folder in self._made_by_us:
            with contextlib.suppress(OSError):
                folder.rmdir()
        return forced

    def _configuration(self, api_port: int, healthz_port: int) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": self.containerd.endpoint,
            "staticPodPath": str(self.place.manifests),
            "podLogsDir": str(self.place.logs / "pods"),
            "volumePluginDir": str(self.place.home / "volume-plugins"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.place.cgroup,
            "failSwapOn": False,
            "failCgroupV1": False,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},  # no API server
            "authorization": {"mode": "AlwaysAllow"},
            "address": "127.0.0.1",
            "port": api_port,
            "readOnlyPort": self._read_only_port,  # the port at which its pods' status is read
            "healthzPort": healthz_port,
            "makeIPTablesUtilChains": False,  # don't change the machine's iptables rules
            "evictionHard": {"memory.available": "100Mi"},  # a full disk must not evict the pods
            "imageGCHighThresholdPercent": 100,  # nor remove their image
            "maxPods": 120,
        }


def make_cgroup(cgroup: str) -> None:
    """Create the cgroup root, which the kubelet needs in every hierarchy."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split(" ")
        if kind in {"cgroup", "cgroup2"} and Path(mount).is_relative_to(CGROUP_MOUNT):
            (Path(mount) / cgroup.strip("/")).mkdir(exist_ok=True)


def _read_json(url: str) -> Any:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2) as answer:
        return json.load(answer)


def _wait_for_healthz(port: int, log: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < until:
        try:
            with opener.open(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise NoKubelet(f"the kubelet is not healthy after {READY_SECONDS} s; {log} ends:\n{last_lines(log)}")
