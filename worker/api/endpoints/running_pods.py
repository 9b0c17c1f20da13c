"""/runningpods: the pods that the runtime runs, known to this node or not; Kubernetes' e2e tests use it.

Pods are derived from the labels of sandboxes and running containers (pkg/kubelet/container Runtime.GetPods, Pod.ToAPIPod).
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

from activities.clients.cri_error import CriError
from proto.cri.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from proto.cri.v1 import api_pb2 as cri
from worker.api.endpoints.pods import Json, pod_list
from worker.api.responses.responses import Refused, raw_json_response
from worker.node.process.dependencies import NodeDependencies


async def handler(_: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer a PodList; 500 with the runtime's message when it does not answer."""
    try:
        sandboxes = await node.runtime.list_pod_sandbox()
        containers = await node.runtime.list_containers()
    except CriError as error:
        raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
    return raw_json_response(pod_list(running(sandboxes, containers)))


def running(sandboxes: Sequence[cri.PodSandbox], containers: Sequence[cri.Container]) -> list[Json]:
    """Return the pods that have a ready sandbox or a running container, with their running containers."""
    pods: dict[str, Json] = {}
    for sandbox in sandboxes:
        if sandbox.state == cri.SANDBOX_READY:
            _pod(pods, sandbox.labels)
    for container in containers:
        if container.state == cri.CONTAINER_RUNNING and (pod := _pod(pods, container.labels)):
            image = container.image.image or container.image_ref
            pod["spec"]["containers"].append(
                {"name": container.labels.get(CONTAINER_NAME, ""), "image": image, "resources": {}}
            )
    return list(pods.values())


def _pod(pods: dict[str, Json], labels: Mapping[str, str]) -> Json | None:
    """Find or add a pod; None for a sandbox or container without the kubelet's labels."""
    uid = labels.get(POD_UID)
    if not uid:
        return None
    metadata: dict[str, Any] = {
        "name": labels.get(POD_NAME, ""),
        "namespace": labels.get(POD_NAMESPACE, ""),
        "uid": uid,
    }
    return pods.setdefault(uid, {"metadata": metadata, "spec": {"containers": []}, "status": {}})
