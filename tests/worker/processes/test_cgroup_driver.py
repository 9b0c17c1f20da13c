"""Does the worker ask the runtime for its cgroup driver, and end when it cannot know it?"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.machine.cgroup_names import CgroupDriver, CgroupNames
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.resources.quantity import parse_quantity
from tests.worker.poller.runtime.fake_runtime import FakeRuntime
from worker.daemon.config import NodeConfig
from worker.daemon.service import Service
from worker.machine.cgroup_driver import FILE, recorded_driver, recorded_names
from worker.processes import cgroup_driver
from worker.processes.cgroup_driver import RuntimeSilent, settled_names, usable_names
from worker.settings.cgroups.enforcement import Enforcement, ReservedCgroup
from worker.settings.kubelet.configuration import ConfigurationRefused

SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS
OLD = {"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"runtimeType": "io.containerd.runc.v2"}}}}
REFUSED = "no bus here"


class Runtime(FakeRuntime):
    """A runtime with RuntimeConfig, which fails as often as the test says."""

    def __init__(self, socket: Path) -> None:
        super().__init__(socket)
        self.answer: cri.RuntimeConfigResponse | None = None
        self.failures = 0
        self.config: dict[str, Any] = {}
        self.user_namespaces = False
        self.calls: list[str] = []

    async def RuntimeConfig(self, _: Any, context: Any) -> cri.RuntimeConfigResponse:  # noqa: N802 - CRI's name
        """Answer, or have no such call."""
        self.calls.append("RuntimeConfig")
        if self.failures:
            self.failures -= 1
            await context.abort(grpc.StatusCode.UNKNOWN, "starting")
        if self.answer is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method RuntimeConfig")
        assert self.answer is not None
        return self.answer

    async def Status(self, request: Any, context: Any) -> cri.StatusResponse:  # noqa: N802 - CRI's name
        """Show the configuration, if asked for it."""
        self.calls.append("Status")
        answer = await super().Status(request, context)
        answer.runtime_handlers.add(name="runc").features.user_namespaces = self.user_namespaces
        if request.verbose:
            answer.info["config"] = json.dumps(self.config)
        return answer


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    """Return one that runs."""
    made = Runtime(tmp_path / "cri.sock")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_driver, "PAUSE", 0.0)


async def settle(
    runtime: Runtime, tmp_path: Path, key: str, *, bus: str = "", root: str = "", reserved: str = ""
) -> CgroupNames:
    """Settle it as the worker does; `reserved` is the cgroup of kube-reserved."""
    held = (ReservedCgroup("Kube Reserved", reserved, {"cpu": parse_quantity("1")}),) if reserved else ()
    config = NodeConfig(
        "n",
        root_dir=tmp_path,
        cgroup_driver=key,
        enforcement=Enforcement(reserved=held),
        cgroup_root=root or f"/of-test-{tmp_path.name}",
        container_runtime_endpoint=runtime.endpoint,
    )
    config.state_dir.mkdir(exist_ok=True)
    client = RuntimeClient(runtime.endpoint, StartLimit(1))
    try:
        return await settled_names(config, client, lambda: bus)
    finally:
        await client.close()


def told(driver: cri.CgroupDriver) -> cri.RuntimeConfigResponse:
    """Return an answer about Linux."""
    return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=driver))


@pytest.mark.parametrize(
    ("answer", "key", "expected"),
    [
        pytest.param(told(cri.SYSTEMD), "cgroupfs", SYSTEMD, id="the-runtime-has-systemd"),
        pytest.param(told(cri.CGROUPFS), "systemd", CGROUPFS, id="the-runtime-has-cgroupfs"),
        pytest.param(None, "cgroupfs", CGROUPFS, id="unimplemented-and-both-have-cgroupfs"),
        pytest.param(cri.RuntimeConfigResponse(), "cgroupfs", CGROUPFS, id="an-answer-not-about-linux"),
    ],
)
async def test_settled(
    runtime: Runtime, tmp_path: Path, answer: cri.RuntimeConfigResponse | None, key: str, expected: CgroupDriver
) -> None:
    """It is recorded for poller and node process."""
    runtime.answer, runtime.config = answer, OLD
    names = await settle(runtime, tmp_path, key)
    assert names.driver is expected
    assert recorded_names(tmp_path / "tempolet", f"/of-test-{tmp_path.name}") == names
    assert ("Status" in runtime.calls) == (answer is None or not answer.HasField("linux"))


@pytest.mark.parametrize(
    ("answer", "bus", "root", "words"),
    [
        pytest.param(None, "", "", "cgroupDriver: systemd, but containerd's handler runc uses cgroupfs", id="mismatch"),
        pytest.param(told(cri.SYSTEMD), REFUSED, "", REFUSED, id="no-bus"),
        pytest.param(told(cri.SYSTEMD), "", "/a b", "cgroupRoot '/a b': 'a b' is no part of a slice", id="root"),
    ],
)
async def test_refused(
    runtime: Runtime, tmp_path: Path, answer: cri.RuntimeConfigResponse | None, bus: str, root: str, words: str
) -> None:
    """Before anything is made or recorded."""
    runtime.answer, runtime.config = answer, OLD
    with pytest.raises(ConfigurationRefused, match=words):
        await settle(runtime, tmp_path, "systemd", bus=bus, root=root)
    assert not (tmp_path / "tempolet" / FILE).exists()


async def test_a_missing_reserved_cgroup_is_refused(runtime: Runtime, tmp_path: Path) -> None:
    """Before anything is made or recorded."""
    runtime.answer = told(cri.CGROUPFS)
    gone = f"/gone-{tmp_path.name}"
    words = f'Failed to enforce Kube Reserved Cgroup Limits on "{gone}": c'
    with pytest.raises(ConfigurationRefused, match=f"^{words}"):
        await settle(runtime, tmp_path, "cgroupfs", reserved=gone)
    assert not (tmp_path / "tempolet" / FILE).exists()


async def test_a_question_alone_records_nothing(runtime: Runtime, tmp_path: Path) -> None:
    """`tempolet join` asks before it changes anything."""
    runtime.answer = told(cri.CGROUPFS)
    config = NodeConfig("n", root_dir=tmp_path, cgroup_root=f"/of-test-{tmp_path.name}")
    client = RuntimeClient(runtime.endpoint, StartLimit(1))
    try:
        assert (await usable_names(config, client)).driver is CGROUPFS
    finally:
        await client.close()
    assert not (tmp_path / "tempolet").exists()


@pytest.mark.parametrize(("failures", "settles"), [(2, True), (3, False)], ids=["the-third-try", "no-fourth-try"])
async def test_tries(runtime: Runtime, tmp_path: Path, failures: int, settles: bool) -> None:
    """Three, because the runtime may be starting too; then the start ends."""
    runtime.answer, runtime.failures = told(cri.CGROUPFS), failures
    if settles:
        await settle(runtime, tmp_path, "systemd")
        return
    with pytest.raises(
        RuntimeSilent, match=r"cri\.sock does not say which cgroup driver it uses: RuntimeConfig: starting"
    ):
        await settle(runtime, tmp_path, "systemd")
    assert runtime.calls == ["RuntimeConfig"] * 3


@pytest.mark.parametrize(("has", "lines"), [(False, 1), (True, 0)], ids=["runc-1.1", "runc-1.2"])
async def test_an_old_runc(runtime: Runtime, tmp_path: Path, has: bool, lines: int) -> None:
    """The worker says at its start which pods cannot run, and what they would need; it starts."""
    runtime.answer, runtime.user_namespaces = told(cri.CGROUPFS), has
    config = NodeConfig(
        "n", root_dir=tmp_path, cgroup_root=f"/of-test-{tmp_path.name}", container_runtime_endpoint=runtime.endpoint
    )
    config.state_dir.mkdir()
    with capture_logs() as logs:
        assert await cgroup_driver.cgroup_driver_settled(config, Service(lambda: "", {}))
    said = [one["event"] for one in logs if "hostUsers: false" in one["event"]]
    assert len(said) == lines
    assert all("runc 1.2 or crun" in one for one in said)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"systemd\n", SYSTEMD, id="systemd"),
        pytest.param(b"cgroupfs\n", CGROUPFS, id="cgroupfs"),
        pytest.param(None, CGROUPFS, id="before-the-first-start"),
        pytest.param(b"\xff" * 1_000_000, CGROUPFS, id="garbage"),
    ],
)
def test_recorded(tmp_path: Path, content: bytes | None, expected: CgroupDriver) -> None:
    """What the worker decided last."""
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    assert recorded_driver(tmp_path) is expected
