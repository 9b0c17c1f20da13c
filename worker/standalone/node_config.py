"""The configuration files of the processes of a node that `up` starts, and the commands that run them.

Written by `up` into the run folder before each start. What the kubelet has a key for is a KubeletConfiguration, the rest
a TempoletConfiguration; both are JSON, which is YAML. What the operator gave lies below what `up` sets. Each
process gets a file of ours, for only the worker serves the codec endpoint.
"""

import json
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

from proto.temporal.names import NAMESPACE
from worker.settings.flags import Flags
from worker.standalone.machine.process import Command, Supervised
from worker.standalone.settings import Settings
from worker.standalone.temporal_server import LOOPBACK

KUBELET: Final = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
TEMPOLET: Final = {"apiVersion": "tempolet.dev/v1alpha1", "kind": "TempoletConfiguration"}
LEAN_HEAPS: Final = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""As the systemd units have it: after a 110-pod start glibc gives 10 MB of worker and poller back."""


def roles(settings: Settings) -> tuple[str, ...]:
    """Name the processes of a node; only one of a cluster has the third."""
    return ("worker", "poller", "node") if settings.kubeconfig else ("worker", "poller")


def write_configuration(settings: Settings) -> None:
    """Write kubelet.yaml, and one file of ours for each process."""
    files = {
        "kubelet": kubelet_configuration(settings),
        **{role: tempolet_configuration(settings, role) for role in roles(settings)},
    }
    settings.configuration.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (settings.configuration / f"{name}.yaml").write_text(json.dumps(content, indent=2) + "\n")


def kubelet_configuration(settings: Settings) -> dict[str, Any]:
    """Give the keys that a kubelet has too."""
    return {
        **settings.given_configuration.kubelet_configuration,
        **KUBELET,
        "containerRuntimeEndpoint": settings.endpoint,
        "staticPodPath": str(settings.manifests),
        "podLogsDir": str(settings.logs / "pods"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": settings.cgroup,
        "healthzBindAddress": LOOPBACK,
    }


def tempolet_configuration(settings: Settings, role: str) -> dict[str, Any]:
    """Give our own keys for one of the processes."""
    temporal = {
        "address": settings.temporal.address,
        "namespace": NAMESPACE,
        "payloadKeyFile": str(settings.key_file),
    }
    given = settings.given_configuration.tempolet_configuration
    ours = {**given, **TEMPOLET, "temporal": temporal, "objects": {"folder": str(settings.objects)}}
    if role != "worker":
        return ours
    codec = {
        "address": f"{LOOPBACK}:{settings.ports.codec}",
        "tokenFile": str(settings.token_file),
        "allowedOrigins": [settings.temporal.ui, settings.temporal.ui.replace(LOOPBACK, "localhost")],
    }
    logs = {"legacyContainerLogsDir": str(settings.logs / "containers")}
    return {**ours, "codec": codec, "logs": logs}


def node_process(settings: Settings, role: str) -> Supervised:
    """Give one of the processes, whether it runs or not."""
    return {"worker": settings.worker, "poller": settings.poller, "node": settings.node}[role]


def healthz_port(settings: Settings, role: str) -> int:
    """Give the port on which a process says that it is healthy; 0: none."""
    return {"worker": settings.ports.worker_healthz, "poller": settings.ports.poller_healthz}.get(role, 0)


def node_command(settings: Settings, role: str) -> Command:
    """Give the command that runs one of the processes of this node."""
    argv: list[str | Path] = [sys.executable, "-m", "worker.cli", role]
    argv += ["--config", settings.configuration / "kubelet.yaml"]
    argv += ["--tempolet-config", settings.configuration / f"{role}.yaml"]
    argv += ["--root-dir", settings.root_dir, "--healthz-port", str(healthz_port(settings, role))]
    if settings.hostname_override:
        argv += ["--hostname-override", settings.hostname_override]
    if settings.kubeconfig:
        argv += ["--kubeconfig", settings.kubeconfig]
    if settings.node_ip:
        argv += ["--node-ip", settings.node_ip]
    given = settings.given_configuration
    if given.image_credential_provider_config:
        argv += ["--image-credential-provider-config", given.image_credential_provider_config]
    if given.image_credential_provider_bin_dir:
        argv += ["--image-credential-provider-bin-dir", given.image_credential_provider_bin_dir]
    # started from /, so that no folder of the operator's stays busy; a checkout is found all the same
    ours = Path(__file__).resolve().parents[2]
    found = {} if ours == Path(sysconfig.get_path("purelib")) else {"PYTHONPATH": str(ours)}
    return Command(argv, settings.logs / f"{role}.log", LEAN_HEAPS | found)


def node_flags(settings: Settings) -> Flags:
    """Give the flags by which other commands know this node."""
    return Flags(
        config=settings.configuration / "kubelet.yaml",
        tempolet_config=settings.configuration / "worker.yaml",
        root_dir=settings.root_dir,
        hostname_override=settings.hostname_override or None,
    )
