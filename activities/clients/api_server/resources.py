"""The API collections that a node uses, and the paths of their objects."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object: its plural name, group (empty: core) and version."""

    plural: str
    group: str = ""
    version: str = "v1"

    def path(self, name: str = "", *, namespace: str = "", sub: str = "") -> str:
        """Return the path of the collection, an object or its subresource.

        Names are quoted, so they cannot change the path.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        parts += ["namespaces", namespace] if namespace else []
        return "/" + "/".join(quote(one, safe="") for one in (*parts, self.plural, name, sub) if one)


PODS: Final = Resource("pods")
NODES: Final = Resource("nodes")
EVENTS: Final = Resource("events")
LEASES: Final = Resource("leases", "coordination.k8s.io")
CONFIG_MAPS: Final = Resource("configmaps")
SECRETS: Final = Resource("secrets")
SERVICES: Final = Resource("services")
SERVICE_ACCOUNTS: Final = Resource("serviceaccounts")
PERSISTENT_VOLUME_CLAIMS: Final = Resource("persistentvolumeclaims")
PERSISTENT_VOLUMES: Final = Resource("persistentvolumes")
RUNTIME_CLASSES: Final = Resource("runtimeclasses", "node.k8s.io")
CSI_DRIVERS: Final = Resource("csidrivers", "storage.k8s.io")
CSI_NODES: Final = Resource("csinodes", "storage.k8s.io")
VOLUME_ATTACHMENTS: Final = Resource("volumeattachments", "storage.k8s.io")
RESOURCE_CLAIMS: Final = Resource("resourceclaims", "resource.k8s.io")
RESOURCE_SLICES: Final = Resource("resourceslices", "resource.k8s.io")
TOKEN_REVIEWS: Final = Resource("tokenreviews", "authentication.k8s.io")
SUBJECT_ACCESS_REVIEWS: Final = Resource("subjectaccessreviews", "authorization.k8s.io")
CERTIFICATE_SIGNING_REQUESTS: Final = Resource("certificatesigningrequests", "certificates.k8s.io")
