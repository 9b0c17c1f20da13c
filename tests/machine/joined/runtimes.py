"""Debian's containerd in a guest, as kubeadm's documentation asks for it: the systemd driver, and a network of its own for pods.

For tests whose node does not bring a containerd of its own.
"""

from typing import Final

from tests.machine.machine import Machine

ENDPOINT: Final = "unix:///run/containerd/containerd.sock"
CONTAINERD: Final = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "registry.k8s.io/pause:3.10.2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = true
"""
NETWORK: Final = """\
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]]}}]}
"""
CONFIG: Final = "/etc/containerd/config.toml"
CNI_CONFIG: Final = "/etc/cni/net.d/10-pods.conflist"


def start_containerd(machine: Machine) -> None:
    """Start Debian's unit of containerd with this configuration, and import the test images."""
    machine.put(CONTAINERD.encode(), CONFIG)
    machine.put(NETWORK.encode(), CNI_CONFIG)
    machine.run("systemctl restart containerd")
    machine.run("for one in /opt/tempolet-parts/images/*.tar; do ctr --namespace k8s.io images import $one; done")


def stop_containerd(machine: Machine) -> None:
    """Stop it, and remove what it has and what `start_containerd` wrote."""
    machine.run("systemctl stop containerd; rm -rf /var/lib/containerd /run/containerd", check=False)
    machine.run(f"rm -f {CONFIG} {CNI_CONFIG}; ip link delete cni0; rm -rf /var/lib/cni", check=False)
