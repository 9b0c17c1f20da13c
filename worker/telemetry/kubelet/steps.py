"""Counts of what was tried for pods: sandboxes, containers, volumes of images, collected images (pkg/kubelet/metrics).

Part of `Metrics`, fed by `activity_counts`. What failed because the runtime is away is not counted: the pod waits.
"""

from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry

from proto.temporal.activities.requests import PodSandbox, PullImage, RunPodSandbox, RuntimeContainer, StartContainer
from proto.temporal.failure_types import NETWORK_NOT_READY, PREDECESSOR_PRESENT, RUNTIME_UNAVAILABLE
from worker.telemetry.kubelet.families import BETA, Families

REGULAR: Final = "container"
INIT: Final = "init_container"
EPHEMERAL: Final = "ephemeral_container"
BEFORE_THE_SANDBOX: Final = frozenset({PREDECESSOR_PRESENT, RUNTIME_UNAVAILABLE, NETWORK_NOT_READY})
"""Failures before a sandbox was asked for."""


class ContainerTypes(Protocol):
    """Knows the containers of the pods."""

    def type_of(self, uid: str, name: str) -> str:
        """Return the type of a container by its pod and its name."""

    def type_with(self, uid: str, image: str) -> str:
        """Return the type of the first container of a pod that has an image."""


class StepCounts:
    """The counts; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made, beta = Families(registry), Families(registry, BETA)
        self._pods = made.counter("kubelet_started_pods_total", "Cumulative number of pods started")
        self._pods_failed = made.counter(
            "kubelet_started_pods_errors_total", "Cumulative number of errors when starting pods"
        )
        on_linux = "This metric will only be collected on Linux."
        self._user_namespaced = made.counter(
            "kubelet_started_user_namespaced_pods_total",
            f"Cumulative number of pods with user namespaces started. {on_linux}",
        )
        self._user_namespaced_failed = made.counter(
            "kubelet_started_user_namespaced_pods_errors_total",
            f"Cumulative number of errors when starting pods with user namespaces. {on_linux}",
        )
        self._sandbox_seconds = made.histogram(
            "kubelet_run_podsandbox_duration_seconds",
            "Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
            "runtime_handler",
        )
        self._sandbox_errors = made.counter(
            "kubelet_run_podsandbox_errors_total",
            "Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.",
            "runtime_handler",
        )
        self._containers = made.counter(
            "kubelet_started_containers_total", "Cumulative number of containers started", "container_type"
        )
        self._containers_failed = made.counter(
            "kubelet_started_containers_errors_total",
            "Cumulative number of errors when starting containers",
            *("container_type", "code"),
        )
        self._image_volumes = beta.counter("kubelet_image_volume_requested_total", "Number of requested image volumes.")
        self._image_volumes_mounted = beta.counter(
            "kubelet_image_volume_mounted_succeed_total", "Number of successful image volume mounts."
        )
        self._image_volumes_failed = beta.counter(
            "kubelet_image_volume_mounted_errors_total", "Number of failed image volume mounts."
        )
        self._fallbacks = made.counter(
            "kubelet_lifecycle_handler_http_fallbacks_total",
            "The number of times lifecycle handlers successfully fell back to http from https.",
        )
        self._sleeps = made.counter(
            "kubelet_sleep_action_terminated_early_total",
            "The number of times lifecycle sleep handler got terminated before it finishes",
        )
        self._images_collected = made.counter(
            "kubelet_image_garbage_collected_total",
            "Total number of images garbage collected by the kubelet, whether through disk usage or image age.",
            "reason",
        )

    def sandbox(self, handler: str, seconds: float, failed: bool) -> None:  # noqa: FBT001 - Timings' signature
        """Count one RunPodSandbox call to the runtime."""
        self._sandbox_seconds.labels(handler).observe(seconds)
        if failed:
            self._sandbox_errors(handler).inc()

    def image_removed(self, reason: str) -> None:
        """Count an image that was removed: `space` or `age`."""
        self._images_collected(reason).inc()

    def hook_fell_back(self) -> None:
        """Count a hook that went on in plain HTTP."""
        self._fallbacks().inc()

    def sleep_ended_early(self) -> None:
        """Count a hook that should have slept longer."""
        self._sleeps().inc()

    def done(self, request: Any, answer: Any, pods: ContainerTypes) -> None:
        """Count an activity that has succeeded; what an earlier try had made is counted already."""
        match request, answer:
            case RunPodSandbox(), PodSandbox(adopted=False):
                self._pod_started(request)
            case StartContainer(), RuntimeContainer(adopted=False):
                self._containers(pods.type_of(request.pod.uid, request.container["name"])).inc()
                self._image_volumes().inc(volumes := image_volumes(request))
                self._image_volumes_mounted().inc(volumes)

    def failed(self, request: Any, reason: str, pods: ContainerTypes) -> None:
        """Count an activity that has failed; the kubelet counts each try as started, too."""
        match request:
            case RunPodSandbox() if reason not in BEFORE_THE_SANDBOX:
                self._pod_started(request)
                self._pods_failed().inc()
                if _has_user_namespace(request):
                    self._user_namespaced_failed().inc()
            case StartContainer() if reason != RUNTIME_UNAVAILABLE:
                self._container_failed(pods.type_of(request.pod.uid, request.container["name"]), reason)
                self._image_volumes().inc(volumes := image_volumes(request))
                self._image_volumes_failed().inc(volumes)
            case PullImage() if request.pod.uid and reason != RUNTIME_UNAVAILABLE:
                self._container_failed(pods.type_with(request.pod.uid, request.image), reason)

    def _pod_started(self, request: RunPodSandbox) -> None:
        self._pods().inc()
        if _has_user_namespace(request):
            self._user_namespaced().inc()

    def _container_failed(self, kind: str, code: str) -> None:
        self._containers(kind).inc()
        self._containers_failed(kind, code).inc()


def image_volumes(request: StartContainer) -> int:
    """Count the volumes of type image that a container mounts."""
    mounted = {one["name"] for one in request.container.get("volumeMounts") or ()}
    return sum(bool(one.image) and one.name in mounted for one in request.volumes)


def _has_user_namespace(request: RunPodSandbox) -> bool:
    return (request.sandbox_spec.get("spec") or {}).get("hostUsers") is False
