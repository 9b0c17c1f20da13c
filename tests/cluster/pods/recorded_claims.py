"""The life of a pod with a ResourceClaim, recorded with the official test driver."""

from typing import Final

from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.cluster.dra.claims import CLAIMS, claim, device_class, reserve, using
from tests.cluster.dra.official_driver import official_driver

_DRIVER: Final = "recorded.cdi.k8s.io"


def claims(node: ClusterNode) -> None:
    """It is reserved late, waits, gets its device, and gives it back."""
    with device_class(node), official_driver(node, _DRIVER):
        claim(node, "recorded", _DRIVER)
        pod = using(node, "with-claim", "recorded")
        node.until_pod("with-claim", lambda one: one.reason == "FailedPrepareDynamicResources", "not reserved yet")
        reserve(node, "recorded", pod)
        node.until_running("with-claim")
        node.api.delete(pods_path(name="with-claim"), gracePeriodSeconds=1)
        node.until_pod_gone("with-claim")
        node.api.delete(f"{CLAIMS}/recorded")
