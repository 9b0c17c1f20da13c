"""ResourceClaims as the scheduler leaves them, and pods that use them; these tests have no scheduler."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final, Protocol

from tests.cluster.api import Api
from tests.node.tempolet_node import pod_manifest


class ClaimsNode(Protocol):
    """A node on which pods use claims: ours, or the kubelet's."""

    @property
    def name(self) -> str:
        """The Node's."""
        ...

    @property
    def api(self) -> Api:
        """The API, as an administrator."""
        ...

    def create_pod(self, manifest: dict[str, Any], /) -> Any:
        """Create a pod that is bound to it."""
        ...


RESOURCE: Final = "/apis/resource.k8s.io/v1"
CLAIMS: Final = f"{RESOURCE}/namespaces/default/resourceclaims"
CLASS: Final = "tempolet-test"


@contextlib.contextmanager
def device_class(node: ClaimsNode) -> Iterator[None]:
    """Have the class of the claims while the block runs."""
    node.api.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": CLASS}, "spec": {}})
    try:
        yield
    finally:
        node.api.delete(f"{RESOURCE}/deviceclasses/{CLASS}")


def claim(node: ClaimsNode, name: str, driver: str) -> None:
    """Create a claim, allocated as the scheduler would do it, and reserved for nobody."""
    request = {"name": "r", "exactly": {"deviceClassName": CLASS}}
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    node.api.create(CLAIMS, body)
    result = {"request": "r", "driver": driver, "pool": node.name, "device": "device-00"}
    node.api.patch(f"{CLAIMS}/{name}/status", {"status": {"allocation": {"devices": {"results": [result]}}}})


def reserve(node: ClaimsNode, name: str, *pods: Any) -> None:
    """Reserve a claim for pods."""
    reserved = [{"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]} for one in pods]
    node.api.patch(f"{CLAIMS}/{name}/status", {"status": {"reservedFor": reserved}})


def using(node: ClaimsNode, name: str, claim_name: str) -> Any:
    """Create a pod whose container ends unless it has the device."""
    manifest = pod_manifest(
        name,
        f'test "$claim_{claim_name}_r" = true && sleep 3600',
        automountServiceAccountToken=False,
        restartPolicy="Never",
        resourceClaims=[{"name": "gpu", "resourceClaimName": claim_name}],
    )
    manifest["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return node.create_pod(manifest)
