"""Measures CRI calls, and traces those made within a recorded span.

An interceptor of `RuntimeClient` in worker and poller. A call outside a span gets none of its own, otherwise the
poller's relists would write a useless trace each minute. Uses OpenTelemetry's API only; the worker configures the
exporter.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
import grpc.aio
from opentelemetry import trace

from activities.clients.call_timer import Measure, code_of, method_of

_SPAN_ATTRIBUTES: Final = {"container_id": "container.id", "pod_sandbox_id": "k8s.pod.sandbox.id"}
"""Fields of CRI requests that name the object of a call."""


class CallObserver(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """A gRPC interceptor for all unary CRI calls; the event stream has no end and is not measured."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: grpc.aio.ClientCallDetails, request: Any
    ) -> Any:
        """Wait for the end of the call to measure it; the caller gets the finished call."""
        service, name = method_of(client_call_details)
        start = time.perf_counter()
        with _span(service, name, request) as span:
            call = await continuation(client_call_details, request)
            code = await code_of(call)
            failed = code is not grpc.StatusCode.OK
            if span is not None:
                span.set_attribute("rpc.grpc.status_code", code.value[0])
                if failed:
                    # the message of a failed pull may quote a login; the activity's own error has it redacted
                    details = "" if name == "PullImage" else f": {await call.details()}"
                    span.set_status(trace.Status(trace.StatusCode.ERROR, f"{code.name}{details}"))
        self._measure(name, time.perf_counter() - start, failed=failed)
        return call


@contextmanager
def _span(service: str, name: str, request: Any) -> Iterator[trace.Span | None]:
    if not trace.get_current_span().is_recording():
        yield None
        return
    attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}
    for field, attribute in _SPAN_ATTRIBUTES.items():
        if value := getattr(request, field, ""):
            attributes[attribute] = value
    if image := getattr(getattr(request, "image", None), "image", ""):
        attributes["container.image.name"] = image
    tracer = trace.get_tracer(__name__)
    with tracer.start_as_current_span(f"CRI {name}", kind=trace.SpanKind.CLIENT, attributes=attributes) as span:
        yield span
