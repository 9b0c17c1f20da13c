"""Every CRI call measured, and part of a trace when the work that makes it is traced.

Given to `RuntimeClient` as its interceptor by worker and poller. Only calls below a span that is recorded get one of
their own: the poller's relists would else be a trace a minute that tells nothing. OpenTelemetry's API only: whether
there is an exporter is the worker's to know.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
import grpc.aio
from opentelemetry import trace

from activities.clients.call_timer import Measure, called, code_of

_SPAN_ATTRIBUTES: Final = {"container_id": "container.id", "pod_sandbox_id": "k8s.pod.sandbox.id"}
"""Fields of CRI requests that say which object a call is about."""


class CallObserver(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Sees every unary CRI call; the event stream, which has no end, is not its business."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: grpc.aio.ClientCallDetails, request: Any
    ) -> Any:
        """Wait for the call's end to measure it; the caller gets the finished call."""
        service, name = called(client_call_details)
        start = time.perf_counter()
        with _span(service, name, request) as span:
            call = await continuation(client_call_details, request)
            code = await code_of(call)
            failed = code is not grpc.StatusCode.OK
            if span is not None:
                span.set_attribute("rpc.grpc.status_code", code.value[0])
                if failed:
                    # what is said of a pull may quote a login: the activity's own error has the words without it
                    said = "" if name == "PullImage" else f": {await call.details()}"
                    span.set_status(trace.Status(trace.StatusCode.ERROR, f"{code.name}{said}"))
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
