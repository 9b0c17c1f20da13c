"""containerd 2 of our parts in a guest, as kubeadm's documentation asks for it: the systemd driver, which it tells by RuntimeConfig.

Beside runc, Debian's crun is a handler, because Debian's runc 1.1 has no user namespaces.
"""

from typing import Final

from tests.cluster.conformance.official_images import NAMES, OFFICIAL, OfficialImages
from tests.machine.hardware import HOST
from tests.machine.joined.runtimes import CNI_CONFIG, CONFIG, NETWORK
from tests.machine.joined.served_programs import served
from tests.machine.machine import Machine
from tests.node.images.debian_registry import DebianRegistry

PROGRAMS: Final = "/opt/tempolet-parts/bin"
CTR: Final = f"{PROGRAMS}/ctr --namespace k8s.io images import"
DROP_IN: Final = "/run/systemd/system/containerd.service.d/newer.conf"
NEWER: Final = f"""\
[Service]
Environment=PATH={PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=
ExecStart={PROGRAMS}/containerd
"""
CERTS: Final = "/etc/containerd/certs.d"


def configuration(default: str = "runc") -> str:
    """Return containerd's configuration with a default handler."""
    return f"""\
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "registry.k8s.io/pause:3.10.2"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{CERTS}"
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "{default}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.crun]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.crun.options]
BinaryName = "/usr/bin/crun"
SystemdCgroup = true
"""


def start_newer_containerd(machine: Machine) -> None:
    """Start it in place of Debian's, and import the test images."""
    machine.put(configuration().encode(), CONFIG)
    machine.put(NETWORK.encode(), CNI_CONFIG)
    machine.put(NEWER.encode(), DROP_IN)
    machine.run("systemctl daemon-reload; systemctl restart containerd")
    machine.run(f"chmod 711 /run/containerd; for one in /opt/tempolet-parts/images/*.tar; do {CTR} $one; done")


def give_official_images(machine: Machine, images: OfficialImages, registry: DebianRegistry) -> None:
    """Import all of them, and serve them in place of the official registry."""
    archives = images.build()
    with served(images.folder) as url:
        for name, archive in archives.items():
            for reference in NAMES[name]:
                repository, _, tag = reference.removeprefix(f"{OFFICIAL}/").partition(":")
                registry.push(archive, repository, tag)
            machine.run(f"curl -sSf {url}/{archive.name} | {CTR} -")
    mirror = f"http://{HOST}:{registry.port}"
    hosts = f'server = "{mirror}"\n[host."{mirror}"]\n  capabilities = ["pull", "resolve"]\n'
    machine.put(hosts.encode(), f"{CERTS}/{OFFICIAL}/hosts.toml")
