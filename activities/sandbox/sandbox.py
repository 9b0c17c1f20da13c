"""Makes, stops and removes a pod's sandbox; each activity may run any number of times.

A sandbox is looked up by its labels before it is created. After a try that timed out, the runtime may hold the
sandbox's name until that try has ended: it is waited for and adopted. Only a name that stays reserved raises the
attempt (containerd#4604).
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.clients.cri_error import CriError, Remedy
from activities.cri_config.container_config import SandboxInputs, sandbox_config
from activities.cri_config.security_context import sandbox_security, sandbox_sysctls
from activities.execution.errors import non_retryable_failure, runtime_failure
from activities.execution.heartbeat import heartbeating
from activities.network.network import network_failure, on_host_network, read_node_file
from activities.network.resolver import NodeDns, Resolver, pod_resolver
from activities.objects.terminating_pods import PodTerminatingError
from activities.pods.directories import make_directories
from activities.pods.orphan_mark import cgroup_lock, unmark
from activities.pods.predecessor import list_of_full_name, other_uid
from activities.runtime.runtime_facts import runtime_sandbox
from activities.sandbox.isolation import ORDINARY, Isolation, isolation_of_new_pod
from activities.sandbox.services import SandboxServices
from proto.cri.labels import POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.resources.huge_pages import missing_sizes, page_size_name
from proto.kubernetes.resources.pod_totals import pod_requests
from proto.kubernetes.resources.qos import qos_class
from proto.kubernetes.resources.resources import (
    overhead_resources,
    pod_resources,
    pod_without_quota,
    sandbox_resources,
    without_quota,
)
from proto.temporal import names
from proto.temporal.activities.requests import PodSandbox, RemovePodSandbox, RunPodSandbox, StopPodSandbox
from proto.temporal.failure_types import NETWORK_NOT_READY, PREDECESSOR_PRESENT
from proto.temporal.pod import PodKey

_NOT_MADE: Final = "FailedCreatePodSandBox"
_NOT_STOPPED: Final = "KillPodSandboxError"
_NOT_REMOVED: Final = "FailedRemovePodSandbox"
_PAUSE_SECONDS: Final = 0.1
_RAISES: Final = 3
"""How many reserved names are skipped before the failure is reported."""


class SandboxActivities:
    """Activities for a pod's sandbox, from its cgroup to its removal."""

    def __init__(self, services: SandboxServices) -> None:
        self._services = services

    @activity.defn(name=names.RUN_POD_SANDBOX)
    async def run_pod_sandbox(self, request: RunPodSandbox) -> PodSandbox:
        """Find the pod's ready sandbox of this attempt or a later one, or create one.

        Raises FailedToMakePodDataDirectories, PredecessorPresent, NetworkNotReady or FailedCreatePodSandBox, also when
        the pod begins to terminate while the runtime hangs. The answer names the attempt that was used.
        """
        pod = request.pod
        async with heartbeating(f"run the sandbox of {pod}"), self._services.locks.hold(f"{pod.namespace}/{pod.name}"):
            if request.containers:
                await make_directories(self._services.paths(pod), request.containers)
            try:
                return await self._services.terminating.unless_terminating(pod.uid, self._find_or_run(request))
            except PodTerminatingError as given_up:
                raise non_retryable_failure(
                    _NOT_MADE, f"the runtime had not made the sandbox of {pod}: {given_up}"
                ) from None
            except CriError as error:
                raise await self._not_made(request, error) from error
            except (OSError, ValueError) as error:  # the cgroup, resolv.conf, a quantity
                raise non_retryable_failure(_NOT_MADE, f"Failed to create pod sandbox of {pod}: {error}") from error

    @activity.defn(name=names.STOP_POD_SANDBOX)
    async def stop_pod_sandbox(self, request: StopPodSandbox) -> None:
        """Stop a sandbox and release its network; one that is gone counts as stopped. Raises KillPodSandboxError."""
        async with heartbeating(f"stop the sandbox of {request.pod}"):
            try:
                await self._services.runtime.stop_pod_sandbox(request.sandbox_id)
            except CriError as error:
                if error.remedy is not Remedy.GONE:
                    doing = f"stop sandbox {request.sandbox_id} of {request.pod}"
                    raise runtime_failure(error, self._services.runtime.endpoint, _NOT_STOPPED, doing) from error

    @activity.defn(name=names.REMOVE_POD_SANDBOX)
    async def remove_pod_sandbox(self, request: RemovePodSandbox) -> None:
        """Remove a sandbox with its containers; one that is gone counts as removed. Raises FailedRemovePodSandbox."""
        async with heartbeating(f"remove the sandbox of {request.pod}"):
            try:
                await self._services.runtime.remove_pod_sandbox(request.sandbox_id)
            except CriError as error:
                if error.remedy is not Remedy.GONE:
                    doing = f"remove sandbox {request.sandbox_id} of {request.pod}"
                    raise runtime_failure(error, self._services.runtime.endpoint, _NOT_REMOVED, doing) from error

    async def _find_or_run(self, request: RunPodSandbox) -> PodSandbox:
        services, pod = self._services, request.sandbox_spec
        raised, wait_until = 0, monotonic() + services.settings.name_reserved_wait.total_seconds()
        while True:
            ready, attempt = await self._look(request)
            if ready:
                return await self._read_back(ready, adopted=True)
            isolation = await isolation_of_new_pod(services, request.pod, pod)
            async with services.locks.hold(cgroup_lock(request.pod.uid)):
                described = await asyncio.to_thread(
                    prepare_sandbox, services, request.pod, isolation.whole(pod), attempt + raised, isolation=isolation
                )
            try:
                with services.timings.of_sandbox(isolation.handler):
                    sandbox_id = await services.runtime.run_pod_sandbox(described.config, isolation.handler)
                made = await self._read_back(sandbox_id, adopted=False)
                return replace(made, notices=described.notices)
            except CriError as error:
                if error.remedy is not Remedy.ADOPT or raised == _RAISES:
                    raise
            if monotonic() < wait_until:
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                raised += 1

    async def _look(self, request: RunPodSandbox) -> tuple[str | None, int]:
        """Return the ready sandbox to adopt, or None and the first attempt whose name is free."""
        pod = request.pod
        sandboxes, containers = await list_of_full_name(self._services.runtime, pod)
        if uid := other_uid(pod, sandboxes, containers):
            message = (
                f"pod {uid} of the same name {pod} still has a sandbox or container; {pod.uid} waits until it is gone"
            )
            raise non_retryable_failure(PREDECESSOR_PRESENT, message)
        own = [one for one in sandboxes if one.labels.get(POD_UID) == pod.uid]
        candidates = [one for one in own if _ready(one) and one.metadata.attempt >= request.attempt]
        if candidates:
            return max(candidates, key=lambda one: one.metadata.attempt).id, 0
        in_use = {one.pod_sandbox_id for one in containers}
        taken = []
        for one in own:
            half_made = one.metadata.attempt >= request.attempt and one.id not in in_use
            if not (half_made and await self._removed(one.id)):
                taken.append(one.metadata.attempt)
        return None, first_free_attempt(request.attempt, taken)

    async def _removed(self, sandbox_id: str) -> bool:
        """Remove what an earlier try left half made; no workflow knows of it."""
        try:
            await self._services.runtime.stop_pod_sandbox(sandbox_id)
            await self._services.runtime.remove_pod_sandbox(sandbox_id)
        except CriError as error:
            return error.remedy is Remedy.GONE
        return True

    async def _read_back(self, sandbox_id: str, *, adopted: bool) -> PodSandbox:
        found = runtime_sandbox(await self._services.runtime.pod_sandbox_status(sandbox_id))
        if not found.ready:
            raise non_retryable_failure(
                _NOT_MADE, f"sandbox {sandbox_id} ended as soon as it was made; see the runtime's log"
            )
        return PodSandbox(found.sandbox_id, found.attempt, found.ips, found.created_at, adopted)

    async def _not_made(self, request: RunPodSandbox, error: CriError) -> ApplicationError:
        """Find out whether the network was the reason: then all pods have to wait for it."""
        if error.remedy is Remedy.PERMANENT and not on_host_network(request.sandbox_spec):
            try:
                if why := await network_failure(self._services.runtime):
                    return non_retryable_failure(NETWORK_NOT_READY, why)
            except CriError:
                pass  # the first error says more
        doing = f"Failed to create pod sandbox of {request.pod}"
        return runtime_failure(error, self._services.runtime.endpoint, _NOT_MADE, doing)


def first_free_attempt(asked: int, taken: Iterable[int]) -> int:
    """Return the first attempt from `asked` on that is above all used ones; a used name is never free again."""
    return max([asked, *(attempt + 1 for attempt in taken)])


@dataclass(frozen=True, slots=True)
class DescribedSandbox:
    """A sandbox's configuration for the runtime, and notices for its pod."""

    config: cri.PodSandboxConfig
    notices: tuple[str, ...]
    """What was left out of its DNS configuration."""


def prepare_sandbox(
    services: SandboxServices, key: PodKey, pod: Mapping[str, Any], attempt: int, *, isolation: Isolation = ORDINARY
) -> DescribedSandbox:
    """Make a sandbox's cgroup and log folder and build its configuration.

    Blocks on files; raises OSError, ValueError.
    """
    sizes = services.settings.resources.huge_page_sizes
    if missing := missing_sizes(pod_requests(pod), sizes):
        has = ", ".join(page_size_name(size) for size in sizes) or "none"
        raise ValueError(
            f"{missing[0]}: this node has huge pages of {has} only; choose one of these, or boot with others"
        )
    resources = pod_resources(pod, services.settings.resources)
    if services.hardware.is_quota_off(key.uid):
        resources = pod_without_quota(resources)
    unmark(services.paths(key).directory)
    services.cgroups.make_pod(key.uid, qos_class(pod), resources)
    services.paths(key).logs.mkdir(parents=True, exist_ok=True)
    return describe_sandbox(services, key, pod, attempt, isolation=isolation)


def describe_sandbox(
    services: SandboxServices, key: PodKey, pod: Mapping[str, Any], attempt: int, *, isolation: Isolation = ORDINARY
) -> DescribedSandbox:
    """Build the configuration of a sandbox, which each of its containers refers to as well."""
    settings, resolver = services.settings, _resolver(services, pod)
    resources = sandbox_resources(pod, settings.resources)
    config = sandbox_config(
        SandboxInputs(
            key=key,
            pod=pod,
            attempt=attempt,
            log_directory=str(services.paths(key).logs),
            cgroup_parent=services.cgroups.pod_cgroup(key.uid, qos_class(pod)),
            dns=cri.DNSConfig(servers=resolver.servers, searches=resolver.searches, options=resolver.options),
            resources=without_quota(resources) if services.hardware.is_quota_off(key.uid) else resources,
            cluster_domain=settings.cluster_domain,
            security=sandbox_security(pod, isolation.user_namespace),
            sysctls=sandbox_sysctls(pod),
            overhead=overhead_resources(pod, settings.resources),
        )
    )
    return DescribedSandbox(config, resolver.notices)


def _resolver(services: SandboxServices, pod: Mapping[str, Any]) -> Resolver:
    """Return a pod's DNS configuration; blocks on the node's resolv.conf. Raises OSError."""
    settings = services.settings
    dns = NodeDns(settings.cluster_dns, settings.cluster_domain, read_node_file(settings.resolv_conf))
    return pod_resolver(pod, dns)


def _ready(sandbox: cri.PodSandbox) -> bool:
    return sandbox.state == cri.PodSandboxState.SANDBOX_READY
