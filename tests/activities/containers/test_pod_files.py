"""Are a pod's files never empty, nor more accessible than they should be, even if writing them is interrupted?"""

import os
from pathlib import Path

import pytest

from activities.containers.container_files import container_mounts
from activities.pods.directories import make_directories
from proto.temporal.activities.requests import StartContainer
from proto.temporal.pod import PodKey
from tests.activities.volume_node import volume_services

POD = PodKey("prod", "web", "uid-1")
SPEC = {"metadata": {"name": "web", "namespace": "prod"}, "spec": {}}


class Killed(BaseException):
    """The worker dies."""


async def test_a_running_container_never_sees_an_empty_hosts_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is written again at each start of another container of the pod."""
    seen: list[str] = []
    allow = os.fchmod
    async with volume_services(tmp_path) as services:
        request = StartContainer(POD, "s", 0, "sha256:1", {"name": "main"}, SPEC, ips=("10.0.0.7",))
        container_mounts(services, request, 0, {})
        hosts = services.paths(POD).etc_hosts
        before = hosts.read_text()
        hosts.write_text(f"{before}10.9.9.9 of-the-container\n")

        def look(descriptor: int, mode: int) -> None:
            seen.append(hosts.read_text())
            allow(descriptor, mode)

        monkeypatch.setattr(os, "fchmod", look)
        container_mounts(services, request, 1, {})
    assert "10.0.0.7\tweb" in before
    assert seen == [f"{before}10.9.9.9 of-the-container\n"]
    assert hosts.read_text() == before


async def test_a_pods_directory_is_never_open_to_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the worker dies before it has set the mode; existing directories keep their mode."""

    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(Path, "chmod", die)
    async with volume_services(tmp_path) as services:
        with pytest.raises(Killed):
            await make_directories(services.paths(POD), ())
        assert services.paths(POD).directory.stat().st_mode & 0o007 == 0
