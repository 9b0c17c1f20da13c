"""On cgroup v2 under systemd, with Debian's containerd and the systemd driver: do pods live in slices, within their limits?"""

import pytest

from tests.machine.conformance.newer_containerd import DROP_IN, NEWER, PROGRAMS
from tests.machine.joined.runtimes import CNI_CONFIG, CONFIG, ENDPOINT, NETWORK, import_images, start_containerd
from tests.machine.machine import Machine

UP_SECONDS = 600.0
KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
"""
SLICES = "systemctl --no-pager list-units --all --plain --no-legend 'tempolet*.slice' | awk '{print $1}'"
CGROUPS = "find /sys/fs/cgroup -type d | grep -E 'tempolet|kubepods' | sort"
MEMORY = 64 << 20


@pytest.fixture
def of_debian(machine: Machine) -> Machine:
    """Start Debian's containerd with the systemd driver, as kubeadm's documentation asks for it."""
    machine.put(KUBELET.encode(), "/run/kubelet.yaml")
    start_containerd(machine)
    return machine


@pytest.mark.machine
def test_pods_in_slices(of_debian: Machine) -> None:
    """Pod and container have their limits, also after a daemon-reload; then nothing of them is left."""
    before = of_debian.run(CGROUPS, check=False).stdout  # of the mount /opt/tempolet
    refused = of_debian.run("tempolet worker --config /run/kubelet.yaml --root-dir /run/root", check=False)
    assert refused.code == 2
    assert "cgroupDriver: cgroupfs, but containerd's handler runc uses systemd" in refused.stderr + refused.stdout
    of_debian.run(f"tempolet up /opt/tempolet/examples/hello.yaml --container-runtime-endpoint {ENDPOINT}", UP_SECONDS)
    try:
        pid = of_debian.run("pgrep -f 'httpd -p 8080'").stdout.split()[0]
        scope = of_debian.run(f"cat /proc/{pid}/cgroup").stdout.strip().removeprefix("0::")
        *slices, pod, container = scope.strip("/").split("/")
        assert slices[:2] == ["tempolet.slice", "tempolet-kubepods.slice"]
        assert pod.startswith(slices[-1].removesuffix(".slice") + "-pod")
        assert container.startswith("cri-containerd-")
        for _ in range(2):
            for cgroup in (scope, scope.rpartition("/")[0]):
                assert of_debian.run(f"cat /sys/fs/cgroup{cgroup}/memory.max").stdout == f"{MEMORY}\n"
            assert of_debian.run(f"systemctl show -p MemoryMax {pod}").stdout == f"MemoryMax={MEMORY}\n"
            of_debian.run("systemctl daemon-reload")
    finally:
        of_debian.run("tempolet down --purge", UP_SECONDS)
    assert of_debian.run(SLICES).stdout == ""
    assert of_debian.run(CGROUPS, check=False).stdout == before


@pytest.mark.machine
@pytest.mark.parametrize("newer", [False, True], ids=["debians", "containerd-2"])
def test_a_containerd_with_its_own_configuration(machine: Machine, newer: bool) -> None:
    """It runs the node's pods as it is, with the driver that it has: Debian's with its package's file, containerd 2 without any."""
    machine.put(NETWORK.encode(), CNI_CONFIG)
    if newer:
        machine.put(NEWER.encode(), DROP_IN)
        machine.run(f"rm {CONFIG}; mkdir -p /opt/cni && ln -s /usr/lib/cni /opt/cni/bin; systemctl daemon-reload")
    machine.run("systemctl restart containerd")
    import_images(machine, programs=PROGRAMS if newer else "/usr/bin")
    before = machine.run(CGROUPS, check=False).stdout
    machine.run(f"tempolet up /opt/tempolet/examples/hello.yaml --container-runtime-endpoint {ENDPOINT}", UP_SECONDS)
    try:
        pid = machine.run("pgrep -f 'httpd -p 8080'").stdout.split()[0]
        cgroup = machine.run(f"cat /proc/{pid}/cgroup").stdout.strip().removeprefix("0::")
        assert cgroup.startswith("/tempolet/kubepods/burstable/pod")
        for one in (cgroup, cgroup.rpartition("/")[0]):
            assert machine.run(f"cat /sys/fs/cgroup{one}/memory.max").stdout == f"{MEMORY}\n"
    finally:
        machine.run("tempolet down --purge", UP_SECONDS)
    assert machine.run(CGROUPS, check=False).stdout == before
    assert machine.run("systemctl is-active containerd").stdout == "active\n"
    if newer:
        assert machine.run(f"ls {CONFIG}", check=False).code
    else:
        assert CONFIG not in machine.run("dpkg --verify containerd", check=False).stdout
