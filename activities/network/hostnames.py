"""What a pod's host is called, by itself and in its domain.

Pure; asked for the sandbox's configuration, which names the host to the kernel, and for /etc/hosts. Sources:
pkg/kubelet/kubelet_pods.go GeneratePodHostNameAndDomain and pkg/kubelet/util/util.go GetNodenameForKernel.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_HOSTNAME_MAX: Final = 63  # a DNS label
_FQDN_MAX: Final = 64  # the kernel's nodename


class HostnameTooLong(ValueError):
    """The kernel takes no host name of this length; the message is the kubelet's."""


class Hostname(NamedTuple):
    """A host's name and its domain, which may be empty."""

    name: str
    domain: str = ""

    @property
    def line(self) -> str:
        """Write what /etc/hosts calls the pod's addresses."""
        return f"{self.name}.{self.domain}\t{self.name}" if self.domain else self.name


def pod_hostname(pod: Mapping[str, Any], cluster_domain: str = "") -> Hostname:
    """Name the pod's host: `hostnameOverride`, or `hostname`, or the pod's name, in the domain of its `subdomain`."""
    spec, metadata = pod.get("spec") or {}, pod["metadata"]
    if override := spec.get("hostnameOverride"):
        return Hostname(_cut(str(override)))
    name = _cut(str(spec.get("hostname") or metadata["name"]))
    if not (subdomain := spec.get("subdomain")):
        return Hostname(name)
    return Hostname(name, f"{subdomain}.{metadata['namespace']}.svc.{cluster_domain}")


def kernel_hostname(pod: Mapping[str, Any], cluster_domain: str) -> str:
    """Say what `hostname` prints in the pod: the name, or all of it where setHostnameAsFQDN asks. Raises HostnameTooLong."""
    host = pod_hostname(pod, cluster_domain)
    if not (host.domain and (pod.get("spec") or {}).get("setHostnameAsFQDN")):
        return host.name
    full = f"{host.name}.{host.domain}"
    if len(full) > _FQDN_MAX:
        raise HostnameTooLong(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long"
            f" ({_FQDN_MAX} characters is the max, {len(full)} characters requested)"
        )
    return full


def _cut(name: str) -> str:
    return name if len(name) <= _HOSTNAME_MAX else name[:_HOSTNAME_MAX].rstrip("-.")
