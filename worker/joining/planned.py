"""The files that join writes, and their content. Pure."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from worker.joining.places import Places
from worker.joining.request import JoinRequest
from worker.joining.systemd import UNITS

CONTAINERD: Final = "unix:///run/containerd/containerd.sock"
RESOLVED: Final = "/run/systemd/resolve/resolv.conf"
PRIVATE: Final = 0o600
PUBLIC: Final = 0o644


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file with its content and mode."""

    path: Path
    content: bytes = field(repr=False)
    mode: int = PRIVATE


@dataclass(frozen=True, slots=True)
class NodeFlags:
    """What the services need besides what was asked for."""

    endpoint: str = ""
    """Of the container runtime, unless the configuration has it."""
    resolv_conf: str = ""
    """As kubeadm sets it where systemd-resolved runs, unless the configuration has it."""


def planned_units() -> list[PlannedFile]:
    """Return the units as the package has them, by name only."""
    folder = files("worker.joining") / "units"
    return [PlannedFile(Path(name), (folder / name).read_bytes()) for name in UNITS]


def kubeadm_drop_in() -> bytes:
    """Return what lets the units read kubeadm's files, as the package has it."""
    return (files("worker.joining") / "units" / "kubeadm.conf").read_bytes()


def environment(request: JoinRequest, places: Places, flags: NodeFlags) -> bytes:
    """Return the units' EnvironmentFile. Every value was checked to need no quoting. kubeadm's files are named by its drop-in."""
    own = () if request.for_kubeadm else ("--config", str(places.kubelet_configuration))
    access = ("--kubeconfig", str(places.kubeconfig), "--bootstrap-kubeconfig", str(places.bootstrap_kubeconfig))
    words = [
        *own,
        *(("--tempolet-config", str(places.tempolet_configuration)) if request.tempolet_config else ()),
        *(() if request.for_kubeadm else access),
        *(("--root-dir", str(places.root_dir)) if places.root_dir != Places().root_dir else ()),
        *(("--container-runtime-endpoint", flags.endpoint) if flags.endpoint else ()),
        *(("--resolv-conf", flags.resolv_conf) if flags.resolv_conf else ()),
        *(("--node-ip", request.node_ip) if request.node_ip else ()),
        *(("--hostname-override", request.hostname_override) if request.hostname_override else ()),
    ]
    lines = ["# written by `tempolet join`", f'TEMPOLET_FLAGS="{" ".join(words)}"']
    lines += [f"{name}={value}" for name, value in request.temporal.variables().items()]
    return "".join(f"{line}\n" for line in lines).encode()


def bootstrap_kubeconfig(server: str, authority: bytes, token: str) -> bytes:
    """Return the kubeconfig with which the node asks for its certificate, in JSON, which is valid YAML."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes", "cluster": cluster}],
        "users": [{"name": "tls-bootstrap-token-user", "user": {"token": token}}],
        "contexts": [{"name": "bootstrap", "context": {"cluster": "kubernetes", "user": "tls-bootstrap-token-user"}}],
        "current-context": "bootstrap",
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def minimal_configuration(authority: Path) -> bytes:
    """Return a KubeletConfiguration for a cluster that publishes none: what kubeadm sets but for the cluster's DNS."""
    content = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "rotateCertificates": True,
        "authentication": {"x509": {"clientCAFile": str(authority)}},
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def node_flags(request: JoinRequest, configuration: Mapping[str, Any], *, resolved_runs: bool) -> NodeFlags:
    """Return the flags that complete a configuration: it is passed on as it is."""
    endpoint = request.endpoint or ("" if configuration.get("containerRuntimeEndpoint") else CONTAINERD)
    return NodeFlags(endpoint, RESOLVED if resolved_runs and not configuration.get("resolvConf") else "")
