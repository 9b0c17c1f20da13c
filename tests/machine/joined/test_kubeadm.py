"""Does the real `kubeadm join` start our units in the kubelet's place? And is a node taken over that was a kubelet's a minute ago?"""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.cluster import bootstrap_tokens
from tests.cluster.binaries import find_binaries
from tests.cluster.cluster_node import condition
from tests.cluster.control_plane import ControlPlane
from tests.machine.hardware import HOST
from tests.machine.joined.node import NAME, Joined, scope_of, slice_of
from tests.machine.joined.served_programs import served
from tests.machine.machine import PATIENCE

PACKAGES: Final = """\
[Service]
ExecStart=
ExecStart=/usr/bin/kubelet of the package
"""
"""kubeadm's package has such a drop-in for kubelet.service, whatever that leads to."""
PACKAGES_PLACE: Final = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
NO_KUBELET: Final = "KubeletVersion,SystemVerification"
"""Checks of kubeadm that ask the kubelet for its version."""
KUBELETS: Final = """\
[Unit]
Description=kubelet
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf \
 --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf $KUBELET_KUBEADM_ARGS
Restart=always
KillMode=process
[Install]
WantedBy=multi-user.target
"""
"""As the package of kubeadm has it."""
STATIC: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: static}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "docker.io/library/busybox:1.37", command: [sleep, "3600"]}]
"""
RESET: Final = f"""
rm -rf /etc/kubernetes /etc/tempolet /var/lib/kubelet
rm -rf /etc/systemd/system/kubelet.service /etc/systemd/system/tempolet-* /usr/local/bin/kubelet /usr/local/bin/tempolet
rm -rf {PACKAGES_PLACE.rpartition("/")[0]}
systemctl daemon-reload; systemctl reset-failed
"""


@pytest.fixture(scope="module")
def machine_with_kubeadm(prepared: Joined) -> Iterator[Joined]:
    """Put kubeadm and the kubelet of the other programs' version into the machine."""
    folder = find_binaries(("kubeadm", "kubelet"))
    bootstrap_tokens.publish_kubeadms_own(prepared.plane, f"https://{HOST}:{prepared.plane.port}")
    prepared.machine.run("sysctl -qw net.ipv4.ip_forward=1")
    with served(folder) as url:
        prepared.machine.run(
            f"mkdir /opt/kubernetes; for one in kubeadm kubelet; do curl -sSf -o /opt/kubernetes/$one {url}/$one && chmod 755 /opt/kubernetes/$one; done"
        )
    yield prepared
    prepared.machine.run("rm -rf /opt/kubernetes", check=False)


@pytest.fixture
def kubeadm_join(machine_with_kubeadm: Joined) -> Iterator[Callable[[str], str]]:
    """Return a function that runs `kubeadm join`, without some of its checks; afterwards the machine is no node."""
    node = machine_with_kubeadm

    def join(ignored: str) -> str:
        words = f"{HOST}:{node.plane.port} --token {bootstrap_tokens.TOKEN} --ignore-preflight-errors={ignored}"
        pin = f"--discovery-token-ca-cert-hash {bootstrap_tokens.ca_hash(node.plane)}"
        ran = node.machine.run(f"/opt/kubernetes/kubeadm join {words} {pin}", check=False)
        said = node.machine.run("journalctl --no-pager -n 60 -u kubelet -u 'tempolet-*'", check=False).stdout
        assert ran.code == 0, f"{ran.stdout}\n{ran.stderr}\n{said}"
        return ran.stdout

    yield join
    node.machine.run("tempolet leave --yes --purge", check=False)
    node.machine.run("systemctl disable --now -q kubelet tempolet-node tempolet-poller tempolet-worker", check=False)
    node.end_pods()
    node.machine.run(RESET, check=False)


@pytest.mark.machine
def test_kubeadm_starts_our_units(machine_with_kubeadm: Joined, kubeadm_join: Callable[[str], str]) -> None:
    """With its own configuration and bootstrap kubeconfig; then a pod of the API runs in its slice. Leave undoes it all."""
    node, before = machine_with_kubeadm, machine_with_kubeadm.left()
    node.machine.put(PACKAGES.encode(), PACKAGES_PLACE)
    node.machine.run(f"tempolet join --for-kubeadm --temporal {node.temporal}")
    assert "This node has joined the cluster" in kubeadm_join(NO_KUBELET)
    _until_ready(node.plane)
    assert "tempolet" in node.plane.api.get(f"/api/v1/nodes/{NAME}")["status"]["nodeInfo"]["kubeletVersion"]
    node.create("kubeadms", "sleep 3600")
    pod = node.running("kubeadms")
    assert node.figures(slice_of(pod))["pids.max"] == "200"
    assert "left. Now: kubectl delete node machine" in node.machine.run("tempolet leave --yes --purge").stdout
    assert node.left() == before
    assert node.machine.run("systemctl show -p LoadState kubelet").stdout.strip() == "LoadState=not-found"


@pytest.mark.machine
def test_a_kubelets_node_is_taken_over(machine_with_kubeadm: Joined, kubeadm_join: Callable[[str], str]) -> None:
    """A pod of the API keeps its container; a static pod restarts, because its UID is another."""
    node, machine = machine_with_kubeadm, machine_with_kubeadm.machine
    machine.run("cp /opt/kubernetes/kubelet /usr/local/bin/kubelet")
    machine.put(KUBELETS.encode(), "/etc/systemd/system/kubelet.service")
    machine.run("systemctl daemon-reload; systemctl enable -q kubelet")
    kubeadm_join("none")
    _until_ready(node.plane)
    machine.put(STATIC.encode(), "/etc/kubernetes/manifests/static.yaml")
    node.create("stays", "sleep 3600")
    before = node.running("stays")
    mirror = node.running(f"static-{NAME}")
    machine.run("systemctl disable --now -q kubelet")
    joined = node.join().stdout
    assert "/etc/kubernetes/kubelet.conf is valid for node machine of this cluster" in joined
    after = node.until("stays", lambda pod: condition(pod, "Ready") == "True", "it is Ready")
    assert scope_of(after) == scope_of(before)
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    assert machine.run(f"cat /sys/fs/cgroup{scope_of(before)}/cgroup.procs").stdout.strip()
    again = node.until(
        f"static-{NAME}",
        lambda pod: _config_hash(pod) != _config_hash(mirror) and condition(pod, "Ready") == "True",
        "the static pod runs again",
    )
    assert scope_of(again) != scope_of(mirror)
    machine.run(f"while [ -e /sys/fs/cgroup{scope_of(mirror)} ]; do sleep 1; done")


def _until_ready(plane: ControlPlane) -> None:
    plane.api.until(f"/api/v1/nodes/{NAME}", lambda node: condition(node, "Ready") == "True", "it is Ready", PATIENCE)


def _config_hash(pod: dict[str, dict[str, dict[str, str]]]) -> str:
    """Return the UID of a mirror pod's static pod."""
    return pod["metadata"]["annotations"]["kubernetes.io/config.mirror"]
