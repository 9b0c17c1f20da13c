"""The real kubelet as a node of the cluster, to compare ours with, on the same machine with the same version of containerd.

What it changes on the machine besides its own folders is recorded at its start and restored at its end, as in tests/bench.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.peers.kubelet import DEVICE_PLUGINS, LOG_LINKS, OUTSIDE, TUNABLES, NoKubelet, make_cgroup
from worker.standalone.machine import leftovers as remains
from worker.standalone.machine.process import Command, Identity, Supervised
from worker.standalone.settings import Settings

STOP_WITHIN: Final = 20.0


@dataclass(frozen=True, slots=True)
class RealKubelet:
    """One kubelet with its own containerd, running or not; `settings` are what ours would have."""

    home: Path
    settings: Settings
    environment: Mapping[str, str] = field(default_factory=dict)
    """More variables of the kubelet."""

    @property
    def process(self) -> Supervised:
        """The kubelet itself."""
        return Supervised(self.home / "kubelet.pid")

    @property
    def was_here(self) -> bool:
        """Return whether it has been started and not yet stopped."""
        return self._note.exists()

    @property
    def _note(self) -> Path:
        return self.home / "kubelet-found.json"

    def start(self, program: Path) -> Identity:
        """Start containerd and kubelet, unless they run; raises NoKubelet if another kubelet runs here."""
        if running := self.process.running():
            return running
        if (DEVICE_PLUGINS / "kubelet.sock").exists():
            raise NoKubelet(f"{DEVICE_PLUGINS}/kubelet.sock is there: another kubelet lives on this machine")
        settings = self.settings
        settings.keep()
        was = {name: Path("/proc/sys", name).read_text() for name in TUNABLES}
        made = [str(folder) for folder in OUTSIDE if not folder.exists()]
        self._note.write_text(json.dumps({"tunables": was, "made": made}))  # from here on `stop` has something to do
        settings.containerd.start()
        for archive in sorted((settings.parts_dir / "images").glob("*.tar")):
            settings.containerd.import_image(archive)
        make_cgroup(settings.cgroup)
        return self.process.start(Command(self._command(program), settings.logs / "kubelet.log", self.environment))

    def stop(self) -> None:
        """Stop kubelet, pods and containerd, and restore what it has changed on the machine."""
        self.process.stop(STOP_WITHIN)
        self.settings.containerd.stop()
        remains.unmount_below(self.home)
        note = json.loads(self._note.read_text())
        for name, value in note["tunables"].items():
            Path("/proc/sys", name).write_text(value)
        if LOG_LINKS.is_dir():
            for link in LOG_LINKS.iterdir():
                if link.is_symlink() and link.readlink().is_relative_to(self.home):
                    link.unlink()
        (DEVICE_PLUGINS / "kubelet.sock").unlink(missing_ok=True)
        for folder in map(Path, note["made"]):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _command(self, program: Path) -> list[str | Path]:
        settings = self.settings
        keys = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": settings.endpoint,
            "podLogsDir": str(settings.logs / "pods"),
            "volumePluginDir": str(self.home / "volume-plugins"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": settings.cgroup,
            "makeIPTablesUtilChains": False,  # don't change the machine's iptables rules
            "healthzPort": 0,
            **settings.given_configuration.kubelet_configuration,
        }
        (self.home / "kubelet.json").write_text(json.dumps(keys, indent=1))
        argv: list[str | Path] = [program, "--config", self.home / "kubelet.json"]
        argv += ["--root-dir", settings.root_dir, "--cert-dir", self.home / "pki", "--kubeconfig", settings.kubeconfig]
        return [*argv, "--hostname-override", settings.hostname_override, "--node-ip", settings.node_ip]
