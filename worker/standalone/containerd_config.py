"""The configuration of a private containerd and of its pod network, as text.

Written by `containerd.py` before each start. Nothing here touches an operator's own containerd: root, state, socket,
network namespaces and address files are below the instance's two folders, and the bridge has its own name. The
configuration is of version 2, which containerd 1.7 and 2.x both read.

containerd puts an image into its database and on disk, but not the files that it unpacks: after a power loss the image is there for ever,
with empty files. So each unpacked layer is synced: `sync_fs` (2.0 and 1.7.26), for pulls `image_pull_with_sync_fs` (from 1.7.14 on).

containerd sets up a pod's loopback itself (`use_internal_loopback`, from 2.0 on): the plugin would be started twice a pod, for 20 ms of CPU time each.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from worker.standalone.pod_network.network import PodNetwork

PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10.2"
SOCKET_PATH_LIMIT: Final = 107  # sun_path of unix(7) without its final NUL
UNUSED_PLUGINS: Final = (
    "io.containerd.internal.v1.opt",  # would make /opt/containerd
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.native",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.nri.v1.nri",
)


@dataclass(frozen=True, slots=True)
class ContainerdPlaces:
    """Paths of an instance: `root` survives a reboot, `run` need not."""

    root: Path
    run: Path

    def __post_init__(self) -> None:
        if len(str(self.ttrpc_socket)) > SOCKET_PATH_LIMIT:
            raise ValueError(
                f"{self.ttrpc_socket} has over {SOCKET_PATH_LIMIT} characters, more than a socket's path may have: "
                "choose a shorter --run-dir"
            )

    @property
    def socket(self) -> Path:
        """The CRI socket."""
        return self.run / "containerd.sock"

    @property
    def ttrpc_socket(self) -> Path:
        """The socket to which shims report."""
        return self.run / "containerd.sock.ttrpc"

    @property
    def state(self) -> Path:
        """The runtime state of containerd: bundles, network namespaces."""
        return self.run / "containerd"

    @property
    def cni_config(self) -> Path:
        """The folder with the one network configuration."""
        return self.run / "cni"

    @property
    def addresses(self) -> Path:
        """host-local's folder of assigned addresses."""
        return self.run / "addresses"

    @property
    def registries(self) -> Path:
        """The folder of mirrors and plain-HTTP registries, one sub-folder a host, read at each pull."""
        return self.root / "certs.d"

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.run / "containerd.toml"

    @property
    def pid_file(self) -> Path:
        """The daemon's pid file."""
        return self.run / "containerd.pid"

    @property
    def log(self) -> Path:
        """The daemon's log, if it is a plain process."""
        return self.root / "log" / "containerd.log"


@dataclass(frozen=True, slots=True)
class ContainerdOptions:
    """What depends on the machine."""

    runc: Path
    cni_plugins: Path
    restrict_oom_score: bool
    """Without CAP_SYS_RESOURCE a process cannot lower oom_score_adj below its own."""


def containerd_config(places: ContainerdPlaces, dependencies: ContainerdOptions) -> str:
    """Format containerd's configuration file (TOML, version 2)."""
    quoted = json.dumps  # TOML's basic strings and JSON's are the same for paths
    return f"""\
version = 2
root = {quoted(str(places.root / "containerd"))}
state = {quoted(str(places.state))}
disabled_plugins = {quoted(list(UNUSED_PLUGINS))}

[grpc]
address = {quoted(str(places.socket))}

[ttrpc]
address = {quoted(str(places.ttrpc_socket))}

[plugins."io.containerd.service.v1.diff-service"]
sync_fs = true

[plugins."io.containerd.grpc.v1.cri"]
image_pull_with_sync_fs = true
sandbox_image = {quoted(PAUSE_IMAGE)}
restrict_oom_score_adj = {quoted(dependencies.restrict_oom_score)}
disable_apparmor = {quoted(not Path("/sys/kernel/security/apparmor").exists())}
netns_mounts_under_state_dir = true
enable_unprivileged_ports = true
enable_unprivileged_icmp = true
enable_cdi = true

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = {quoted(str(places.registries))}

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {quoted(str(dependencies.cni_plugins))}
conf_dir = {quoted(str(places.cni_config))}
use_internal_loopback = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = {quoted(str(dependencies.runc))}
SystemdCgroup = false
"""


def cni_config(network: PodNetwork, addresses: Path, port_mapper: dict[str, object] | None) -> str:
    """Format the CNI network list: a bridge with host-local addresses, and host ports if there is a port mapper."""
    bridge: dict[str, object] = {
        "type": "bridge",
        "bridge": network.bridge,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(addresses),
            "ranges": [[{"subnet": network.subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [bridge, port_mapper] if port_mapper else [bridge]
    return json.dumps({"cniVersion": "1.0.0", "name": network.bridge, "plugins": plugins}, indent=2) + "\n"


def port_mapper(*, nft: bool, iptables: bool, protocol: tuple[int, ...]) -> dict[str, object] | None:
    """Choose the port mapper: nftables if the plugin supports it, otherwise iptables, otherwise none.

    The backend is always named: by itself the plugin takes iptables wherever that is installed. An old plugin knows no
    other and ignores the name. `protocol` is the newest CNI protocol of the plugin: 1.1.0 came with nftables.
    """
    backend = "nftables" if nft and protocol >= (1, 1) else "iptables" if iptables else ""
    return {"type": "portmap", "capabilities": {"portMappings": True}, "backend": backend} if backend else None
