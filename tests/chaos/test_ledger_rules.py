"""Does the proxy tell and do what a scenario asks, and do the rules over its ledger fail where a call breaks one?"""

from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc
from tests.chaos.node.cri_proxy import CallFault, CriProxy, Where
from tests.chaos.node.ledger import Call, Ledger
from tests.chaos.node.oracle import ledger_wrong
from tests.chaos.node.pods import PRE_STOP

STOP = cri.StopContainerRequest(container_id="c1", timeout=3)
ORDER = {"u": ("first", "main")}


class FakeRuntime(api_pb2_grpc.RuntimeServiceServicer):  # type: ignore[misc]  # generated, without types
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.stopped: list[tuple[str, int]] = []

    def StopContainer(self, request: cri.StopContainerRequest, _: grpc.ServicerContext) -> cri.StopContainerResponse:  # noqa: N802 - CRI's name
        """Take a stop."""
        self.stopped.append((request.container_id, request.timeout))
        return cri.StopContainerResponse()

    def CreateContainer(  # noqa: N802 - CRI's name
        self, request: cri.CreateContainerRequest, _: grpc.ServicerContext
    ) -> cri.CreateContainerResponse:
        """Make one."""
        return cri.CreateContainerResponse(container_id=f"made-{request.config.metadata.attempt}")

    def GetContainerEvents(  # noqa: N802 - CRI's name
        self, _request: cri.GetEventsRequest, _: grpc.ServicerContext
    ) -> Iterator[cri.ContainerEventResponse]:
        """Send two."""
        yield from (cri.ContainerEventResponse(container_id=name) for name in ("a", "b"))


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[FakeRuntime]:
    """Serve a runtime."""
    made = FakeRuntime()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    api_pb2_grpc.add_RuntimeServiceServicer_to_server(made, server)
    server.add_insecure_port(f"unix://{tmp_path / 'runtime'}")
    server.start()
    yield made
    server.stop(grace=None).wait()


@pytest.fixture
def proxy(runtime: FakeRuntime, tmp_path: Path) -> Iterator[CriProxy]:
    """Serve a proxy before it."""
    assert runtime
    with CriProxy(tmp_path / "proxy", f"unix://{tmp_path / 'runtime'}") as made:
        yield made


@pytest.fixture
def stub(proxy: CriProxy) -> Iterator[api_pb2_grpc.RuntimeServiceStub]:
    """Call through the proxy."""
    with grpc.insecure_channel(proxy.endpoint) as channel:
        yield api_pb2_grpc.RuntimeServiceStub(channel)


def test_calls_pass_and_are_written_down(
    proxy: CriProxy, stub: api_pb2_grpc.RuntimeServiceStub, runtime: FakeRuntime
) -> None:
    """With and without a deadline; streams, too."""
    stub.StopContainer(STOP)
    stub.StopContainer(STOP, timeout=60)
    asked = cri.CreateContainerRequest(config=cri.ContainerConfig(metadata=cri.ContainerMetadata(name="m", attempt=2)))
    assert stub.CreateContainer(asked).container_id == "made-2"
    assert [one.container_id for one in stub.GetContainerEvents(cri.GetEventsRequest())] == ["a", "b"]
    assert runtime.stopped == [("c1", 3)] * 2
    told = [(one.method, one.code, one.made) for one in proxy.ledger.calls]
    assert told == [("StopContainer", "OK", "")] * 2 + [("CreateContainer", "OK", "made-2")]


@pytest.mark.parametrize(
    ("where", "reached", "code"),
    [
        pytest.param(Where.BEFORE, 0, "REFUSED", id="refused-before-the-effect"),
        pytest.param(Where.AFTER, 1, "OK", id="the-reply-is-lost"),
    ],
)
def test_a_fault_strikes_the_call_that_was_chosen(
    proxy: CriProxy,
    stub: api_pb2_grpc.RuntimeServiceStub,
    runtime: FakeRuntime,
    where: Where,
    reached: int,
    code: str,
) -> None:
    """The second one; the first and the third pass."""
    acted: list[str] = []
    fault = CallFault("f", frozenset({"StopContainer"}), where, lambda: acted.append("now"), refuses=True, skip=1)
    proxy.faults.append(fault)
    stub.StopContainer(STOP)
    with pytest.raises(grpc.RpcError) as failed:
        stub.StopContainer(STOP)
    stub.StopContainer(STOP)
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert (acted, fault.struck.is_set(), len(runtime.stopped)) == (["now"], True, 2 + reached)
    assert [one.code for one in proxy.ledger.calls] == ["OK", code, "OK"]


def created(name: str, attempt: int = 0, sandbox: str = "s") -> Call:
    """Build a creation."""
    return Call("CreateContainer", 1, {"uid": "u", "name": name, "attempt": attempt, "sandbox": sandbox}, 2, "OK")


def hook(began: float, ended: float | None) -> Call:
    """Build the run of a preStop hook."""
    return Call("ExecSync", began, {"container": "c", "command": f"sh -c {PRE_STOP}"}, ended, "OK")


@pytest.mark.parametrize(
    ("calls", "invariant"),
    [
        pytest.param([created("first"), created("main"), created("main", 1)], "", id="all-as-it-should-be"),
        pytest.param([created("first"), created("first", 0, "t")], "", id="again-after-a-removal"),
        pytest.param([created("main", 1)], "I3", id="an-attempt-is-missing"),
        pytest.param([Call("StopContainer", 1, {"container": "c", "timeout": 0}, 2, "OK")], "I6", id="killed-at-once"),
        pytest.param([hook(1, 2), hook(3, 4)], "", id="a-hook-again"),
        pytest.param([hook(1, 4), hook(3, 5)], "I6", id="a-hook-twice-at-once"),
        pytest.param([created("main"), created("first")], "I7", id="in-the-wrong-order"),
        pytest.param(
            [replace(created("first"), code="CANCELLED"), created("main")], "", id="made-though-its-caller-had-died"
        ),
    ],
)
def test_the_rules_over_the_ledger(calls: list[Call], invariant: str) -> None:
    """What breaks is named."""
    found = [one.partition(":")[0] for one in ledger_wrong(Ledger(calls), ORDER)]
    assert found[:1] == [invariant] * bool(invariant)
