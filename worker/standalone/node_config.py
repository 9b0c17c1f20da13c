"""Configuration files and commands of the node processes that `up` starts.

Written by `up` into the run folder before each start. Keys that a kubelet has are in a KubeletConfiguration, the others
in a TempoletConfiguration; both are JSON, which is YAML. The operator's own keys have lower precedence than those that
`up` sets. Each process has a TempoletConfiguration of its own, because only the worker serves the codec endpoint.
"""

import json
from pathlib import Path
from typing import Any, Final

from activities.files.atomic_files import write_atomically
from activities.machine.cgroup_names import CgroupDriver
from proto.temporal.names import NAMESPACE
from worker.settings.flags import Flags
from worker.settings.tempolet_configuration import AT_START
from worker.standalone.cri_client import CriClient
from worker.standalone.machine.private_files import private_folder
from worker.standalone.machine.process import Command, Supervised
from worker.standalone.machine.process_log import FileLog, ProcessLog, journal_command
from worker.standalone.machine.python_modules import module_command
from worker.standalone.machine.units import UnitCommand
from worker.standalone.settings import Settings
from worker.standalone.temporal_server import LOOPBACK

KUBELET: Final = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
TEMPOLET: Final = {"apiVersion": "tempolet.dev/v1alpha1", "kind": "TempoletConfiguration"}
LEAN_HEAPS: Final = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""As in the systemd units: after a 110-pod start glibc then returns 10 MB of worker and poller."""


def roles(settings: Settings) -> tuple[str, ...]:
    """Return the processes of a node; only one of a cluster has the third."""
    return ("worker", "poller", "node") if settings.kubeconfig else ("worker", "poller")


def write_configuration(settings: Settings) -> None:
    """Write kubelet.yaml, and a TempoletConfiguration for each process."""
    files = {
        "kubelet": kubelet_configuration(settings),
        **{role: tempolet_configuration(settings, role) for role in roles(settings)},
    }
    folder = private_folder(settings.configuration)
    for name, content in files.items():
        text = json.dumps(content, indent=2) + "\n"
        write_atomically(folder / f"{name}.yaml", text.encode(), synced=False)


def kubelet_configuration(settings: Settings) -> dict[str, Any]:
    """Return the keys that a kubelet has too."""
    return {
        **_secured(settings),
        **KUBELET,
        "containerRuntimeEndpoint": settings.endpoint,
        "staticPodPath": str(settings.manifests),
        "podLogsDir": str(settings.logs / "pods"),
        "cgroupDriver": str(_cgroup_driver(settings)),
        "cgroupRoot": settings.cgroup,
        "healthzBindAddress": LOOPBACK,
    }


def _cgroup_driver(settings: Settings) -> CgroupDriver:
    """Return the private containerd's, or what a given runtime has: one before containerd 2.0 cannot tell the worker."""
    if not settings.container_runtime_endpoint:
        return CgroupDriver.CGROUPFS
    with CriClient(settings.runtime_socket) as runtime:
        return runtime.cgroup_driver()


def _secured(settings: Settings) -> dict[str, Any]:
    """Return the operator's keys; who may use a cluster node's API is said even if it is the default, for audits."""
    given = settings.given_configuration.kubelet_configuration
    if not settings.kubeconfig:
        return dict(given)
    authentication = {"anonymous": {"enabled": False}, **(given.get("authentication") or {})}
    return {
        **given,
        "authentication": authentication,
        "authorization": given.get("authorization") or {"mode": "Webhook"},
    }


def tempolet_configuration(settings: Settings, role: str) -> dict[str, Any]:
    """Return our own keys for one of the processes."""
    temporal = {
        "address": settings.temporal.address,
        "namespace": NAMESPACE,
        "databaseFile": str(settings.temporal.linked_database),
        "payloadKeyFile": str(settings.key_file),
    }
    given = settings.given_configuration.tempolet_configuration
    ours = {
        "behaviour": {"commit": AT_START},
        **given,
        **TEMPOLET,
        "temporal": temporal,
        "objects": {"folder": str(settings.objects)},
    }
    log = log_of(settings, role)
    logs = {"file": str(log.path)} if isinstance(log, FileLog) else {}
    if role != "worker":
        return {**ours, "logs": logs}
    codec = {"socket": str(settings.temporal.places.codec)}
    logs["legacyContainerLogsDir"] = str(settings.logs / "containers")
    return {**ours, "codec": codec, "logs": logs}


def log_of(settings: Settings, role: str) -> ProcessLog:
    """Return where one of the processes logs."""
    return node_process(settings, role).log(_log_file(settings, role))


def logs_of(settings: Settings) -> str:
    """Say where all logs are."""
    if not (units := settings.units):
        return str(settings.logs)
    return f"{settings.logs / 'pods'}; of the services: {journal_command(f'{units.prefix}-*')}"


def _log_file(settings: Settings, role: str) -> Path:
    return settings.logs / f"{role}.log"


def node_process(settings: Settings, role: str) -> Supervised:
    """Return one of the processes, whether it runs or not."""
    return {"worker": settings.worker, "poller": settings.poller, "node": settings.node}[role]


def healthz_port(settings: Settings, role: str) -> int:
    """Return the healthz port of a process; 0: none."""
    return {"worker": settings.ports.worker_healthz, "poller": settings.ports.poller_healthz}.get(role, 0)


def node_command(settings: Settings, role: str) -> Command:
    """Return the command that runs one of the processes of this node."""
    module = module_command("worker.cli")
    argv: list[str | Path] = [*module.argv, role]
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
    umask = 0o022 if role == "worker" else 0o077  # pods must be able to read the files that the worker makes for them
    return Command(argv, _log_file(settings, role), LEAN_HEAPS | module.environment, umask)


def boot_command(settings: Settings) -> UnitCommand:
    """Return the command that makes again what a boot has wiped."""
    module = module_command("worker.standalone.boot")
    return UnitCommand((*module.argv, str(settings.state_dir)), module.environment)


def node_flags(settings: Settings) -> Flags:
    """Return the flags by which other commands find this node."""
    return Flags(
        config=settings.configuration / "kubelet.yaml",
        tempolet_config=settings.configuration / "worker.yaml",
        root_dir=settings.root_dir,
        hostname_override=settings.hostname_override or None,
    )
