"""Does a real ext4 with project quotas count a volume, also what walking does not see, and is the id given back?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.machine.machine import Machine

FIRST: Final = 1048577
MIB: Final = 1024**2
IMAGE: Final = "/run/quota.img"
DISK: Final = "/run/quota"
SCRIPT: Final = Path(__file__).with_name("use_quotas.py")


@pytest.fixture
def disk(shared_machine: Machine) -> Iterator[str]:
    """Mount one."""
    make = f"truncate -s 64M {IMAGE} && mkfs.ext4 -q -O quota,project {IMAGE} && mkdir -p {DISK}"
    shared_machine.run(f"{make} && mount -o loop,prjquota {IMAGE} {DISK}")
    yield DISK
    shared_machine.run(f"umount {DISK}; rm -f {IMAGE} /run/use_quotas.py /etc/projects /etc/projid; rmdir {DISK}")


@pytest.mark.machine
def test_the_kernel_counts_a_volume(shared_machine: Machine, disk: str) -> None:
    """By the kubelet's id, in the kubelet's files; a folder that comes later gets the next, for the files still have the first."""
    shared_machine.put(SCRIPT, "/run/use_quotas.py")
    ran = shared_machine.run(f"/opt/tempolet/.venv/bin/python /run/use_quotas.py {disk}")
    found: dict[str, Any] = json.loads(ran.stdout)
    folders = [f"{disk}/pods/u/volumes/kubernetes.io~empty-dir/{name}" for name in ("data", "other")]
    assert found["accounts"] is True
    assert [found[one] for one in ("project", "early", "late")] == [FIRST] * 3
    assert found["quota"] == found["files"]
    assert found["quota"][0] >= 3 * MIB
    assert found["quota_open"][0] - found["files_open"][0] >= 4 * MIB
    assert found["lines"] == [f"{FIRST}:{folders[0]}\n", f"volume{FIRST}:{FIRST}\n"]
    assert found["lines_then"] == [f"{FIRST + 1}:{folders[1]}\n", f"volume{FIRST + 1}:{FIRST + 1}\n"]
    assert found["lines_at_last"] == ["", ""]
    assert found["quota_then"] is None
