"""The kernel's files about a disk, and an iscsiadm that writes them."""

import os
from pathlib import Path

import pytest

from activities.volumes.disks.scsi import ScsiTree
from tests.activities.volumes.stand_ins import StandIns
from tests.activities.volumes.types.disk_node import IQN, SESSION, SHOW


@pytest.fixture
def tree(tmp_path: Path, device: Path) -> ScsiTree:
    """Return a tree of the kernel's files: one SCSI host, and the disk once it was scanned for."""
    made = ScsiTree(tmp_path / "sys", tmp_path / "dev")
    for folder in ("class/scsi_host/host7", f"block/{device.name}/device"):
        (made.sys / folder).mkdir(parents=True)
    (made.sys / "class/scsi_host/host7/scan").touch()
    for folder in ("by-path", "by-id"):
        (made.dev / "disk" / folder).mkdir(parents=True)
    return made


@pytest.fixture
def programs(tmp_path: Path, tree: ScsiTree, device: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """Put an iscsiadm on PATH whose login creates a session and the disk's link."""
    made = StandIns(tmp_path / "bin")
    session = tree.sys / SESSION
    files = {"iscsi_session/session1/targetname": IQN, "address": "192.0.2.1", "port": "3260"}
    files |= {"persistent_address": "192.0.2.1", "persistent_port": "3260"}
    written = [
        f"f={session}/{name if '/' in name else f'connection1:0/iscsi_connection/connection1:0/{name}'};"
        f' mkdir -p $(dirname $f); echo "{content}" > $f'
        for name, content in files.items()
    ]
    link = f"ln -sfn {device} {tree.dev}/disk/by-path/ip-192.0.2.1:3260-iscsi-{IQN}-lun-0"
    login = f'case "$*" in *--login*) {"; ".join([*written, link])};; *--logout*) rm -r {session};; esac'
    made.put("iscsiadm", f"{SHOW}\n{login}")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made
