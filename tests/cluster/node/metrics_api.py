"""A fake metrics-server: it serves the metrics API from a node's /metrics/resource, for `kubectl top`.

It works as the real one: it scrapes twice, computes the rate of the counters between the node's timestamps, and serves the group
metrics.k8s.io behind the API server's aggregator. It scrapes the node through the API server's proxy.
"""

import contextlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.control_plane import ControlPlane
from tests.free_ports import free_ports

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"
NAME: Final = "metrics-stand-in"
BETWEEN: Final = 2.0
"""Seconds between two scrapes: the node's metrics are not updated more often."""
NEWER_WITHIN: Final = 20.0
"""Even on a busy node all metrics are updated within this time."""

Key = tuple[str, str, str]
"""Namespace, pod, container; all empty: the node."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters at one time: seconds of CPU, bytes of memory."""

    cpu_seconds: float
    at: float
    memory_bytes: float = 0


def scrape(plane: ControlPlane, node: str) -> dict[Key, Sample]:
    """Scrape a node, with the names and labels that metrics-server reads (pkg/scraper/client/resource/decode.go)."""
    text = plane.api.get(f"/api/v1/nodes/{node}/proxy/metrics/resource")
    cpu: dict[Key, Sample] = {}
    memory: dict[Key, float] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            key = (one.labels.get("namespace", ""), one.labels.get("pod", ""), one.labels.get("container", ""))
            if one.name in {"node_cpu_usage_seconds_total", "container_cpu_usage_seconds_total"}:
                assert one.timestamp is not None, f"{one.name} has no timestamp: metrics-server takes it for nothing"
                cpu[key] = Sample(one.value, float(one.timestamp))
            elif one.name in {"node_memory_working_set_bytes", "container_memory_working_set_bytes"}:
                memory[key] = one.value
    return {key: Sample(one.cpu_seconds, one.at, memory[key]) for key, one in cpu.items() if key in memory}


def usages(plane: ControlPlane, node: str) -> dict[Key, dict[str, str]]:
    """Return each one's usage between two scrapes, in the format of the metrics API."""
    before = after = scrape(plane, node)
    deadline = time.monotonic() + NEWER_WITHIN
    while time.monotonic() < deadline and not all(
        after[key].at > before[key].at for key in before.keys() & after.keys()
    ):
        time.sleep(BETWEEN)  # the scraper's own interval
        after = scrape(plane, node)
    found = {}
    for key, now in after.items():
        if key in before and now.at > before[key].at:
            cores = (now.cpu_seconds - before[key].cpu_seconds) / (now.at - before[key].at)
            found[key] = {"cpu": f"{round(cores * 1e9)}n", "memory": f"{round(now.memory_bytes / 1024)}Ki"}
    return found


@contextlib.contextmanager
def metrics_api(plane: ControlPlane, node: str, address: str) -> Iterator[None]:
    """Serve and register the metrics API of one node, at an address that is not loopback, while the block runs."""
    (port,) = free_ports(1)
    server = http.server.ThreadingHTTPServer((address, port), _handler(plane, node))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    signed = plane.authority.sign("metrics", "metrics", hosts=[address])
    context.load_cert_chain(signed.certificate, signed.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    service = "/apis/apiregistration.k8s.io/v1/apiservices"
    try:
        _register(plane, address, port, service)
        yield
    finally:
        plane.api.delete(f"{service}/{VERSION}.{GROUP}")
        plane.api.delete(f"/api/v1/namespaces/kube-system/services/{NAME}")
        server.shutdown()
        thread.join()
        server.server_close()


def _register(plane: ControlPlane, address: str, port: int, service: str) -> None:
    ports = [{"name": "https", "port": 443, "targetPort": port}]
    plane.api.create("/api/v1/namespaces/kube-system/services", {"metadata": {"name": NAME}, "spec": {"ports": ports}})
    slices = {
        "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    plane.api.create("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", slices)
    spec = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100}
    spec |= {"insecureSkipTLSVerify": True, "service": {"namespace": "kube-system", "name": NAME, "port": 443}}
    plane.api.create(service, {"metadata": {"name": f"{VERSION}.{GROUP}"}, "spec": spec})
    plane.api.until(f"{service}/{VERSION}.{GROUP}", _available, "the metrics API is available")


def _available(service: Any) -> bool:
    conditions = service.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)


def _handler(plane: ControlPlane, node: str) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(_answer(self.path.partition("?")[0], plane, node)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    return Handler


def _answer(path: str, plane: ControlPlane, node: str) -> dict[str, Any]:
    named = {"apiVersion": f"{GROUP}/{VERSION}"}
    parts = path.removeprefix(f"/apis/{GROUP}/{VERSION}").strip("/").split("/")
    if path.rstrip("/").endswith(VERSION):
        kinds = (("nodes", "NodeMetrics", False), ("pods", "PodMetrics", True))
        resources = [
            {"name": name, "kind": kind, "namespaced": within, "singularName": "", "verbs": ["get", "list"]}
            for name, kind, within in kinds
        ]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{GROUP}/{VERSION}",
            "resources": resources,
        }
    told = {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "window": f"{BETWEEN:g}s"}
    used = usages(plane, node)
    if parts[0] == "nodes":
        item = {"metadata": {"name": node}, **told, "usage": used[("", "", "")]}
        return (
            {"kind": "NodeMetrics", **named, **item}
            if parts[1:]
            else {"kind": "NodeMetricsList", **named, "items": [item]}
        )
    namespace = parts[1] if parts[0] == "namespaces" else ""
    pods: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (within, pod, container), usage in used.items():
        if container and namespace in {"", within}:
            pods.setdefault((within, pod), []).append({"name": container, "usage": usage})
    items = [
        {"metadata": {"namespace": within, "name": pod}, **told, "containers": containers}
        for (within, pod), containers in pods.items()
    ]
    return {"kind": "PodMetricsList", **named, "items": items}
