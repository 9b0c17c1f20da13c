"""The spans, and the provider that exports them; imported by `tracing` only if there is a collector.

Attributes follow OpenTelemetry's conventions for Kubernetes: the node in the resource, the pod from the workflow's id.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import opentelemetry.context
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from temporalio import client, worker, workflow
from temporalio.client import Plugin, WorkflowHandle
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin, ReplaySafeTracerProvider, create_tracer_provider
from temporalio.plugin import SimplePlugin

from activities.execution.attempt import current_attempt
from proto.temporal.names import PodWorkflowId
from worker.telemetry.tracing_settings import TracingSettings

_MILLION: Final = 1_000_000
_LONGEST_DESCRIPTION: Final = 300  # characters of an error

Attributes = dict[str, str | int]


def exporting_provider(settings: TracingSettings) -> ReplaySafeTracerProvider:
    """Return a provider that exports to the configured endpoint, or as OTEL_* says, which the exporter reads itself."""
    resource = Resource.create({"service.name": settings.service, "k8s.node.name": settings.node})
    sampler: Sampler | None = None
    exporter = OTLPSpanExporter()
    if settings.endpoint is not None:
        sampler = ParentBased(TraceIdRatioBased(settings.sampling_rate_per_million / _MILLION))
        exporter = OTLPSpanExporter(endpoint=settings.endpoint, insecure=True)
    provider = create_tracer_provider(sampler=sampler, resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def plugins(provider: ReplaySafeTracerProvider) -> tuple[Plugin, ...]:
    """Set the process's tracer provider and return the plugins for a Temporal client.

    The order matters: our span is current when the SDK's plugin writes headers, and is created after it has read them.
    """
    trace.set_tracer_provider(provider)
    return (
        SimplePlugin("tempolet-sending", interceptors=[_Sending()]),
        OpenTelemetryPlugin(),
        SimplePlugin("tempolet-working", interceptors=[_Working()]),
    )


class _Sending(client.Interceptor):
    """The root span: a start, signal or update, named as such."""

    def intercept_client(self, next: client.OutboundInterceptor) -> client.OutboundInterceptor:  # noqa: A002 - the SDK's
        return _SendingCalls(next)


class _SendingCalls(client.OutboundInterceptor):
    async def start_workflow(self, input: client.StartWorkflowInput) -> WorkflowHandle[Any, Any]:  # noqa: A002 - the SDK's
        with _sending(input.start_signal or input.workflow, input.id):
            return await super().start_workflow(input)

    async def signal_workflow(self, input: client.SignalWorkflowInput) -> None:  # noqa: A002 - the SDK's
        with _sending(input.signal, input.id):
            await super().signal_workflow(input)

    async def start_workflow_update(
        self,
        input: client.StartWorkflowUpdateInput,  # noqa: A002 - the SDK's
    ) -> client.WorkflowUpdateHandle[Any]:
        with _sending(input.update, input.id):
            return await super().start_workflow_update(input)


class _Working(worker.Interceptor):
    """Spans of the receiving side: a point in the workflow, and a span for each activity."""

    def intercept_activity(self, next: worker.ActivityInboundInterceptor) -> worker.ActivityInboundInterceptor:  # noqa: A002 - the SDK's
        return _WorkingActivity(next)

    def workflow_interceptor_class(
        self,
        input: worker.WorkflowInterceptorClassInput,  # noqa: A002, ARG002 - the SDK's
    ) -> type[worker.WorkflowInboundInterceptor]:
        return _WorkingWorkflow


class _WorkingActivity(worker.ActivityInboundInterceptor):
    async def execute_activity(self, input: worker.ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's
        if not _traced():
            return await super().execute_activity(input)
        attempt = current_attempt()
        attributes = _pod_attributes(attempt.workflow_id) | _container_attributes(input.args)
        attributes |= {"temporalActivityID": attempt.key, "temporalAttempt": attempt.number}
        tracer = trace.get_tracer(__name__)
        with tracer.start_as_current_span(attempt.name, attributes=attributes, record_exception=False) as span:
            try:
                return await super().execute_activity(input)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"[:_LONGEST_DESCRIPTION]
                span.set_status(trace.Status(trace.StatusCode.ERROR, text))
                raise


class _WorkingWorkflow(worker.WorkflowInboundInterceptor):
    async def execute_workflow(self, input: worker.ExecuteWorkflowInput) -> Any:  # noqa: A002 - the SDK's
        _mark(workflow.info().workflow_type)
        return await super().execute_workflow(input)

    async def handle_signal(self, input: worker.HandleSignalInput) -> None:  # noqa: A002 - the SDK's
        _mark(f"{input.signal} taken up")
        await super().handle_signal(input)


@contextmanager
def _sending(name: str, workflow_id: str) -> Iterator[None]:
    span = trace.get_tracer(__name__).start_span(
        name, kind=trace.SpanKind.PRODUCER, attributes=_pod_attributes(workflow_id)
    )
    if span.get_span_context().trace_flags.sampled:
        with trace.use_span(span, end_on_exit=True):
            yield
        return
    token = opentelemetry.context.attach(
        opentelemetry.context.Context()
    )  # no context, so nothing is written into headers
    try:
        yield
    finally:
        opentelemetry.context.detach(token)


def _mark(name: str) -> None:
    """Create a span that ends at once and is the parent of all that follows; a replay does not export it again.

    Its context is never detached. It belongs to the task of the workflow or handler, which an eviction may discard at any
    point, where detaching would fail.
    """
    if not _traced():
        return
    info = workflow.info()
    attributes = _pod_attributes(info.workflow_id) | {"temporalRunID": info.run_id}
    span = trace.get_tracer(__name__).start_span(name, kind=trace.SpanKind.CONSUMER, attributes=attributes)
    span.end()
    opentelemetry.context.attach(trace.set_span_in_context(span))


def _traced() -> bool:
    return trace.get_current_span().get_span_context().trace_flags.sampled


def _pod_attributes(workflow_id: str) -> Attributes:
    attributes: Attributes = {"temporalWorkflowID": workflow_id}
    try:
        pod = PodWorkflowId.parse(workflow_id)
    except ValueError:
        return attributes
    return attributes | {
        "k8s.namespace.name": pod.namespace,
        "k8s.pod.name": pod.name,
        "k8s.pod.uid": pod.uid,
        "k8s.node.name": pod.node,
    }


def _container_attributes(arguments: Any) -> Attributes:
    """Read a container's name, attempt and image from an activity's request, if it has them."""
    request = arguments[0] if arguments else None
    container = getattr(request, "container", None)
    name = container.get("name") if isinstance(container, dict) else getattr(request, "name", None)
    attempt = getattr(request, "attempt", None)
    image = getattr(request, "image", None)
    found: Attributes = {}
    if isinstance(name, str):
        found["k8s.container.name"] = name
        if isinstance(attempt, int):
            found["k8s.container.restart_count"] = attempt
    if isinstance(image, str):
        found["container.image.name"] = image
    return found
