"""Does `up` take over the cgroup driver of the operator's own containerd, and say what to do about one that cannot be used?"""

import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc
import pytest

from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc
from worker.standalone import up
from worker.standalone.cri_client import RuntimeNotReady, given_runtime, without_user_namespaces
from worker.standalone.node_config import kubelet_configuration
from worker.standalone.settings import Settings


class Runtime(api_pb2_grpc.RuntimeServiceServicer):  # type: ignore[misc]  # generated without types
    """A runtime that shows its configuration."""

    def __init__(self, config: str, handlers: Mapping[str, bool] = MappingProxyType({})) -> None:
        self.config, self.handlers = config, handlers

    def Status(self, request: Any, _: Any) -> cri.StatusResponse:  # noqa: N802 - CRI's name
        """Show it, if asked for it."""
        answer = cri.StatusResponse(info={"config": self.config} if request.verbose else {})
        for name, has in self.handlers.items():
            answer.runtime_handlers.add(name=name).features.user_namespaces = has
        return answer

    def Version(self, _: Any, __: Any) -> cri.VersionResponse:  # noqa: N802 - CRI's name
        """Say who it is."""
        return cri.VersionResponse(runtime_name="containerd", runtime_version="1.7.24")


def shown(*, systemd: bool) -> str:
    """Return a configuration as containerd 1.7 shows it."""
    runc = {"runtimeType": "io.containerd.runc.v2", "options": {"SystemdCgroup": systemd}}
    return json.dumps({"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": runc}}})


@pytest.mark.parametrize(
    ("config", "driver"),
    [
        pytest.param(shown(systemd=True), "systemd", id="systemd"),
        pytest.param(shown(systemd=False), "cgroupfs", id="cgroupfs"),
        pytest.param("", "cgroupfs", id="it-shows-none"),
        pytest.param(None, "cgroupfs", id="it-is-away"),
    ],
)
def test_the_driver(tmp_path: Path, config: str | None, driver: str) -> None:
    """The worker could not start with another key."""
    socket = f"unix://{tmp_path}/cri.sock"
    settings = Settings(run_dir=tmp_path / "run", state_dir=tmp_path / "state", container_runtime_endpoint=socket)
    server = grpc.server(ThreadPoolExecutor(1))
    if config is not None:
        api_pb2_grpc.add_RuntimeServiceServicer_to_server(Runtime(config), server)
        server.add_insecure_port(socket)
    server.start()
    try:
        assert kubelet_configuration(settings)["cgroupDriver"] == driver
    finally:
        server.stop(grace=None)


def test_its_own_containerd(tmp_path: Path) -> None:
    """Its driver is cgroupfs, as its configuration says."""
    settings = Settings(run_dir=tmp_path / "run", state_dir=tmp_path / "state")
    assert kubelet_configuration(settings)["cgroupDriver"] == "cgroupfs"


def test_no_socket(tmp_path: Path) -> None:
    """It is named, and what to start."""
    with pytest.raises(
        RuntimeNotReady,
        match=re.escape(f"no container runtime at unix://{tmp_path}/cri.sock: there is no such socket; start"),
    ):
        given_runtime(f"unix://{tmp_path}/cri.sock", timedelta())


def test_a_containerd_without_cri(tmp_path: Path) -> None:
    """Docker's comes with it disabled."""
    endpoint = f"unix://{tmp_path}/cri.sock"
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_insecure_port(endpoint)
    server.start()
    try:
        with pytest.raises(RuntimeNotReady, match="take cri out of disabled_plugins in its configuration"):
            given_runtime(endpoint, timedelta())
    finally:
        server.stop(grace=None)


@pytest.mark.parametrize(
    ("handlers", "words"),
    [
        pytest.param({"runc": False, "crun": True}, "", id="one-handler-has-them"),
        pytest.param({"": False, "runc": False}, "(runc, the default one) has user namespaces", id="an-old-runc"),
        pytest.param({}, "(it tells of none) has user namespaces", id="containerd-1.7-tells-of-no-handler"),
        pytest.param(None, "", id="it-is-away"),
    ],
)
def test_user_namespaces(tmp_path: Path, handlers: dict[str, bool] | None, words: str) -> None:
    """What no pod can have with a runtime is told, with what it would need."""
    endpoint = f"unix://{tmp_path}/cri.sock"
    server = grpc.server(ThreadPoolExecutor(1))
    if handlers is not None:
        api_pb2_grpc.add_RuntimeServiceServicer_to_server(Runtime("", handlers), server)
        server.add_insecure_port(endpoint)
    server.start()
    try:
        told = without_user_namespaces(endpoint)
    finally:
        server.stop(grace=None)
    assert words in told
    assert bool(told) == bool(words)
    assert not told or "runc 1.2 or crun" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as `up` does")
def test_a_driver_that_this_machine_cannot_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A containerd for systemd on a machine without: both sides are named, and nothing is started or written."""
    monkeypatch.setattr(up, "systemd_error", lambda: "systemd at /run/x: no such file")
    endpoint = f"unix://{tmp_path}/cri.sock"
    settings = Settings(run_dir=tmp_path / "run", state_dir=tmp_path / "state", container_runtime_endpoint=endpoint)
    server = grpc.server(ThreadPoolExecutor(1))
    api_pb2_grpc.add_RuntimeServiceServicer_to_server(Runtime(shown(systemd=True)), server)
    server.add_insecure_port(endpoint)
    server.start()
    try:
        with pytest.raises(up.UpFailed) as refused:
            up.up(settings)
    finally:
        server.stop(grace=None)
    words = "nothing was changed: the container runtime uses the cgroup driver systemd, and systemd cannot be used: systemd at /run/x: "
    assert str(refused.value).startswith(words)
    assert "SystemdCgroup = false" in str(refused.value)
    assert [one.name for one in tmp_path.iterdir()] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as `up` does")
def test_up_tells_what_no_pod_can_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it starts anything; here a systemd that does not answer ends it then."""
    monkeypatch.setattr(up, "systemd_error", lambda: "systemd at /run/x: no such file")
    endpoint = f"unix://{tmp_path}/cri.sock"
    settings = Settings(
        run_dir=tmp_path / "run", state_dir=tmp_path / "state", container_runtime_endpoint=endpoint, systemd=True
    )
    server = grpc.server(ThreadPoolExecutor(1))
    api_pb2_grpc.add_RuntimeServiceServicer_to_server(Runtime(shown(systemd=False), {"runc": False}), server)
    server.add_insecure_port(endpoint)
    server.start()
    try:
        with pytest.raises(up.UpFailed, match="give --no-systemd"):
            up.up(settings)
    finally:
        server.stop(grace=None)
    assert (
        "note: no pod can have hostUsers: false here: no handler of the container runtime (runc)"
        in capsys.readouterr().out
    )
