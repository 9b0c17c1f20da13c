"""Disks of one iSCSI target on a node, for the tests of this folder: what names them, and what iscsiadm was asked."""

from pathlib import Path
from typing import Any

from activities.node_services import NodeServices
from activities.volumes.plugin.volume_type import PodVolume
from proto.temporal.pod import PodKey
from tests.activities.volumes.stand_ins import StandIns

IQN = "iqn.2015-02.example.com:test"
SOURCE = {"targetPortal": "192.0.2.1", "iqn": IQN, "lun": 0}
PLACE = f"iface-default/192.0.2.1:3260-{IQN}-lun-0"
SESSION = "class/iscsi_host/host7/device/session1"
SHOW = 'case "$*" in *show*) echo "iface.iscsi_ifacename = default"; echo "iface.transport_name = tcp"; exit 0;; esac'


def of_pod(services: NodeServices, uid: str = "uid-1", source: dict[str, Any] | None = None) -> PodVolume:
    """Return a volume of a pod."""
    return PodVolume(
        PodKey("default", "web", uid), "data", SOURCE if source is None else source, {"spec": {}}, services
    )


def below(services: NodeServices, path: str) -> Path:
    """Return a path below the node's root."""
    return services.settings.root_dir / path


def called(programs: StandIns, word: str) -> int:
    """Count the calls of iscsiadm that contain a word."""
    return sum(word in one for one in programs.asked("iscsiadm"))
