"""Are a pod's files never emptier, nor open to more, than they should be, whenever the writing of them ends?"""

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
    """The end of the worker."""


async def test_a_running_container_never_sees_an_empty_hosts_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start of another container of its pod writes the file again."""
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
    """Also of a worker that dies before it has set the mode: what is there stays as it is."""

    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(Path, "chmod", die)
    async with volume_services(tmp_path) as services:
        with pytest.raises(Killed):
            await make_directories(services.paths(POD), ())
        assert services.paths(POD).directory.stat().st_mode & 0o007 == 0
