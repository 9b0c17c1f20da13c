"""Is a disk of a real iSCSI target, the kernel's own, attached for a pod, kept for the next one, and detached after the last?"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.cluster.cluster_node import pods_path
from tests.machine.joined.node import NAME, Joined, scope_of
from tests.node.tempolet_node import pod_manifest

IQN: Final = "iqn.2015-02.example.com:test"
DISK: Final = "/var/tmp/iscsi-disk"
LOADED: Final = "modprobe iscsi_tcp"
OFFERED: Final = f"""
systemctl start iscsid.service
targetcli /backstores/fileio create test {DISK} 64M
targetcli /iscsi create {IQN}
targetcli /iscsi/{IQN}/tpg1/luns create /backstores/fileio/test
targetcli /iscsi/{IQN}/tpg1 set attribute authentication=0 demo_mode_write_protect=0 generate_node_acls=1 cache_dynamic_acls=1
"""
TAKEN_BACK: Final = f"""
iscsiadm -m node -T {IQN} --logout; iscsiadm -m node -T {IQN} -o delete
targetcli clearconfig confirm=True; rm -f {DISK}; systemctl stop iscsid.service
"""
SESSIONS: Final = f"iscsiadm -m session | grep {IQN}"


@pytest.fixture
def target(node: Joined) -> Iterator[str]:
    """Offer a new disk of 64 MiB at the machine itself."""
    node.machine.run(OFFERED)
    yield IQN
    node.machine.run(TAKEN_BACK, check=False)


@pytest.mark.machine
def test_a_disk_is_attached_kept_and_detached(node: Joined, target: str) -> None:
    """Once the kernel has the module, as the pod's event says. The disk is formatted, the second pod finds what the first has written, and no session stays."""
    _pod(node, "writes", target, "echo kept > /disk/written && exec sleep 3600")
    node.until("writes", lambda _: any(LOADED in one for one in node.events("writes")), "it says what is not loaded")
    node.machine.run(LOADED)
    _seen(node, "writes")
    _pod(node, "reads", target, "exec sleep 3600")
    _seen(node, "reads")


def _pod(node: Joined, name: str, iqn: str, command: str) -> None:
    manifest: dict[str, Any] = pod_manifest(name, command, nodeName=NAME)
    disk = {"targetPortal": "127.0.0.1", "iqn": iqn, "lun": 0, "fsType": "ext4"}
    manifest["spec"]["volumes"] = [{"name": "disk", "iscsi": disk}]
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "disk", "mountPath": "/disk"}]
    node.plane.api.create(pods_path(), manifest)


def _seen(node: Joined, name: str) -> None:
    """Look at what is written on the pod's disk, by the target's session, then end the pod and with it the session."""
    pid = node.machine.run(f"head -1 /sys/fs/cgroup{scope_of(node.running(name))}/cgroup.procs").stdout.strip()
    node.machine.run(f"until grep -q kept /proc/{pid}/root/disk/written; do sleep 1; done")
    assert node.machine.run(SESSIONS).stdout.count(IQN) == 1
    node.until_gone(name)
    assert node.machine.run(SESSIONS, check=False).stdout == ""
