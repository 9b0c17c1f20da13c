"""The part of the node's configuration that activities read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from activities.cri_config.security_context import NodeSecurity
from activities.machine.node_capacity import this_node
from proto.kubernetes.resources.node_resources import NodeResources
from proto.kubernetes.resources.quantity import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivitySettings:
    """Settings for activities; names are KubeletConfiguration's where it has them."""

    root_dir: Path = Path("/var/lib/kubelet")
    node_name: str = ""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """The labels that are known without an API server: name, operating system and architecture."""
    pod_logs_dir: Path = Path("/var/log/pods")
    legacy_container_logs_dir: Path | None = None
    """The folder of links to container logs; None: no links."""
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: Path | None = Path("/etc/resolv.conf")
    node_hosts: Path = Path("/etc/hosts")
    runtime_handler: str = ""
    security: NodeSecurity = field(default_factory=NodeSecurity)
    resources: NodeResources = field(default_factory=this_node)
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    """The node's allocatable resources: they replace limits that a container does not set."""
    selinux_file_label: str = ""
    """The system's label for files of containers; empty: SELinux is off."""
    selinux_mount: bool = False
    """Volumes of every access mode are mounted with a label (the feature gate SELinuxMount)."""
    monitors_quotas: bool = False
    """Project quotas count emptyDir volumes of pods in user namespaces, where the file system has them."""
    name_reserved_wait: timedelta = timedelta(seconds=5)
    """How long to wait for a name that an earlier try still holds in the runtime, before the attempt is raised."""
