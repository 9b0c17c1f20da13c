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
IMPORT: Final = """
set -e
PATH={programs}:$PATH
for one in {folder}/*.tar; do ctr --namespace k8s.io images import $one; done
wanted=$(containerd config dump | sed -n -e 's/.*sandbox_image = "\\(.*\\)"/\\1/p' -e "s/^ *sandbox = '\\(.*\\)'/\\1/p")
pause=$(ctr --namespace k8s.io images ls -q | grep -m 1 '/pause:')
[ "$pause" = "$wanted" ] || ctr --namespace k8s.io images tag --force "$pause" "$wanted"
"""
CONFIG: Final = "/etc/containerd/config.toml"
CNI_CONFIG: Final = "/etc/cni/net.d/10-pods.conflist"


def start_containerd(machine: Machine) -> None:
    """Start Debian's unit of containerd with this configuration, and import the test images."""
    machine.put(CONTAINERD.encode(), CONFIG)
    machine.put(NETWORK.encode(), CNI_CONFIG)
    machine.run("systemctl restart containerd")
    import_images(machine)


def import_images(machine: Machine, folder: str = "/opt/tempolet-parts/images", programs: str = "/usr/bin") -> None:
    """Import the test images, in the place of the registries, the one for sandboxes under the name that containerd is configured with.

    `programs`: where this containerd's programs are.
    """
    machine.run(IMPORT.format(folder=folder, programs=programs))


def stop_containerd(machine: Machine) -> None:
    """Stop it, and remove what it has and what `start_containerd` wrote."""
    machine.run("systemctl stop containerd; rm -rf /var/lib/containerd /run/containerd", check=False)
    machine.run(f"rm -f {CONFIG} {CNI_CONFIG}; ip link delete cni0; rm -rf /var/lib/cni", check=False)
