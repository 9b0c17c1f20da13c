"""Is there one trace from the poller's signal to the CRI call, and nothing of it in a history that is not sampled?"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from temporalio.client import WorkflowHistory

from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc
from tests.patience import PATIENCE
from tests.worker.daemon.systemd_machine import hierarchies, remove_tree
from tests.worker.telemetry import traced_life
from worker.telemetry.tracing import open_tracing
from worker.telemetry.tracing_settings import TracingSettings
from worker.temporal.temporal_client import TemporalSettings, connect

ALWAYS, PRACTICALLY_NEVER = "1000000", "1"  # a million


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """An OTLP collector that keeps spans, each with its service and node."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, str, Span]] = []
        self.more = asyncio.Event()

    async def Export(self, request: Any, _: Any) -> Any:  # noqa: N802 - the protocol's name
        """Keep the spans."""
        for resource in request.resource_spans:
            facts = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(facts["service.name"], facts["k8s.node.name"], span) for span in scope.spans]
        self.more.set()
        return trace_service_pb2.ExportTraceServiceResponse()


class Runtime(api_pb2_grpc.RuntimeServiceServicer):  # type: ignore[misc]  # generated without types
    """A container runtime that only knows its version and its cgroup driver."""

    async def Version(self, _: Any, __: Any) -> cri.VersionResponse:  # noqa: N802 - the protocol's name
        """Answer it."""
        return cri.VersionResponse(version="1.2.3")

    async def RuntimeConfig(self, _: Any, __: Any) -> cri.RuntimeConfigResponse:  # noqa: N802 - the protocol's name
        """Answer cgroupfs."""
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS))


@pytest.fixture
async def collector() -> AsyncIterator[tuple[Collector, str]]:
    """Serve a collector; yields its address."""
    kept, server = Collector(), grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(kept, server)  # type: ignore[no-untyped-call]  # generated without types
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield kept, f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[str]:
    """Serve a runtime; yields its endpoint."""
    server = grpc.aio.server()
    api_pb2_grpc.add_RuntimeServiceServicer_to_server(Runtime(), server)
    endpoint = f"unix://{tmp_path}/cri.sock"
    server.add_insecure_port(endpoint)
    await server.start()
    yield endpoint
    await server.stop(None)


async def start(role: str, *arguments: str) -> asyncio.subprocess.Process:
    """Start one of the two processes."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "tests.worker.telemetry.traced_life", role, *arguments)
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)


async def live(settings: TemporalSettings, *arguments: str) -> tuple[WorkflowHistory, str, str]:
    """Run a workflow with both processes; returns its history and their output."""
    reach = (str(settings.key_file), str(settings.address), *arguments)
    worker = await start("worker", *reach)
    try:
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"working\n"
        poller = await start("poller", *reach)
        told, _ = await asyncio.wait_for(poller.communicate(), PATIENCE)
        assert poller.returncode == 0
        worked, _ = await asyncio.wait_for(worker.communicate(b""), PATIENCE)
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    client = await connect(settings)
    history = await client.get_workflow_handle(traced_life.WORKFLOW_ID).fetch_history()
    return history, worked.decode(), told.decode()


def headers(history: WorkflowHistory) -> list[str]:
    """Return the types of events with headers."""
    return [str(event.event_type) for event in history.events if b"_tracer-data" in event.SerializeToString()]


def story(kept: Collector) -> dict[bytes, str]:
    """Return the path of each span from its root."""
    spans = {span.span_id: span for _, _, span in kept.spans}

    def way(span: Span) -> str:
        parent = spans.get(span.parent_span_id)
        return f"{way(parent)} > {span.name}" if parent is not None else span.name

    return {span_id: way(span) for span_id, span in spans.items()}


async def test_one_trace_from_the_pollers_signal_to_the_cri_call(
    settings: TemporalSettings, collector: tuple[Collector, str], runtime: str
) -> None:
    """Poller, workflow, activity and CRI call are connected across two processes, with the pod's attributes."""
    kept, address = collector
    history, worked, _ = await live(settings, runtime, address, ALWAYS)
    ways = sorted(story(kept).values())
    assert ways == [
        "PodListed",
        "PodListed > PodListed taken up",
        "PodListed > PodWorkflow",
        "PodListed > PodWorkflow > RunPodSandbox",
        "PodListed > PodWorkflow > RunPodSandbox",
        "PodListed > PodWorkflow > RunPodSandbox > CRI Version",
        "PodListed > PodWorkflow > RunPodSandbox > CRI Version",
        "RuntimeChanged",
        "RuntimeChanged > RuntimeChanged taken up",
    ]
    assert headers(history)
    assert "['Version', 'Version']" in worked
    by_name = {span.name: (service, node, span) for service, node, span in kept.spans}
    assert {name: by_name[name][0] for name in ("PodListed", "CRI Version")} == {
        "PodListed": "tempolet-poller",
        "CRI Version": "tempolet-worker",
    }
    assert {node for _, node, _ in kept.spans} == {"node-1"}
    pod = {each.key: each.value.string_value for each in by_name["RunPodSandbox"][2].attributes}
    assert pod.items() >= {"k8s.namespace.name": "default", "k8s.pod.name": "hello", "k8s.pod.uid": "0123"}.items()
    call = {each.key: each.value.string_value for each in by_name["CRI Version"][2].attributes}
    assert (
        call.items()
        >= {"rpc.system": "grpc", "rpc.service": "runtime.v1.RuntimeService", "rpc.method": "Version"}.items()
    )


def configure(folder: Path, settings: TemporalSettings, cri_endpoint: str, collector: str) -> list[str]:
    """Write a node's configuration and one manifest; returns the flags."""
    (folder / "manifests").mkdir()
    (folder / "manifests" / "hello.yaml").write_text(json.dumps(MANIFEST))
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": cri_endpoint,
        "staticPodPath": str(folder / "manifests"),
        "podLogsDir": str(folder / "logs"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/tempolet-tracing-{os.getpid()}",
        "healthzPort": 0,
        "tracing": {"endpoint": collector, "samplingRatePerMillion": 1_000_000},
    }
    temporal = {"address": str(settings.address), "payloadKeyFile": str(settings.key_file)}
    own = {"apiVersion": "tempolet.dev/v1alpha1", "kind": "TempoletConfiguration", "temporal": temporal}
    (folder / "kubelet.yaml").write_text(json.dumps(kubelet))
    (folder / "own.yaml").write_text(json.dumps(own))
    files = ["--config", str(folder / "kubelet.yaml"), "--tempolet-config", str(folder / "own.yaml")]
    return [*files, "--root-dir", str(folder / "root"), "--hostname-override", "node-1"]


MANIFEST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "hello"},
    "spec": {"containers": [{"name": "web", "image": "busybox:1"}]},
}


@pytest.mark.skipif(os.geteuid() != 0, reason="the worker makes cgroups, which needs root")
async def test_the_real_worker_and_poller_make_such_a_trace(
    settings: TemporalSettings, collector: tuple[Collector, str], runtime: str, tmp_path: Path
) -> None:
    """As configured by KubeletConfiguration's tracing block; the runtime refuses the sandbox, and its span shows it."""
    kept, address = collector
    flags = configure(tmp_path, settings, runtime, address)
    silent = asyncio.subprocess.DEVNULL
    roles = [
        await asyncio.create_subprocess_exec(sys.executable, "-m", "worker.cli", role, *flags, stderr=silent)
        for role in ("worker", "poller")
    ]
    refused = "PodListed > PodWorkflow > RunPodSandbox > CRI ListPodSandbox"
    try:
        async with asyncio.timeout(PATIENCE):
            while refused not in story(kept).values():
                kept.more.clear()
                await kept.more.wait()
    finally:
        for process in roles:
            process.terminate()
        await asyncio.gather(*(process.wait() for process in roles))
        remove_cgroups(f"tempolet-tracing-{os.getpid()}")
    [span, *_] = [span for _, _, span in kept.spans if span.name == "CRI ListPodSandbox"]
    assert "UNIMPLEMENTED" in span.status.message


def remove_cgroups(name: str) -> None:
    """Remove the cgroup tree that the worker created in every hierarchy."""
    for at in hierarchies():
        remove_tree(at / name)


async def test_what_is_not_sampled_costs_no_history(
    settings: TemporalSettings, collector: tuple[Collector, str], runtime: str
) -> None:
    """With a collector but not sampled (all but one workflow in a million), no span is sent and no header written."""
    kept, address = collector
    history, _, _ = await live(settings, runtime, address, PRACTICALLY_NEVER)
    assert kept.spans == []
    assert headers(history) == []


async def test_without_a_collector_nothing_is_imported(settings: TemporalSettings, runtime: str) -> None:
    """Without an exporter there is no header, and neither process loads OpenTelemetry's SDK; calls are still measured."""
    history, worked, told = await live(settings, runtime)
    assert headers(history) == []
    assert "['Version', 'Version']" in worked
    assert worked.splitlines()[-1] == told.splitlines()[-1] == "imported []"


@pytest.mark.parametrize(
    ("endpoint", "rate", "environment", "wanted"),
    [
        pytest.param(None, 0, {}, False, id="nothing-said"),
        pytest.param("collector:4317", 0, {}, False, id="a-block-that-samples-nothing"),
        pytest.param("collector:4317", 1, {}, True, id="a-block-that-samples"),
        pytest.param(
            "collector:4317", 0, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False, id="the-block-goes-first"
        ),
        pytest.param(None, 0, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True, id="environment"),
        pytest.param(None, 0, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True, id="environment-for-traces"),
        pytest.param(
            None,
            0,
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"},
            False,
            id="no-exporter",
        ),
        pytest.param(
            None, 0, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, False, id="disabled"
        ),
    ],
)
def test_who_decides_whether_there_is_tracing(
    endpoint: str | None, rate: int, environment: dict[str, str], wanted: bool
) -> None:
    """The kubelet's block takes precedence over the environment; without a destination it is off."""
    assert TracingSettings("tempolet-worker", "node-1", endpoint, rate).wanted(environment) is wanted


def test_off_adds_nothing_to_the_client() -> None:
    """No plugins at all."""
    assert open_tracing(TracingSettings("tempolet-worker", "node-1"), {}).plugins == ()
