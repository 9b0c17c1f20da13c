"""A pod's host name and domain; pure.

Used for the sandbox's configuration, which sets the kernel's host name, and for /etc/hosts. Sources:
pkg/kubelet/kubelet_pods.go GeneratePodHostNameAndDomain and pkg/kubelet/util/util.go GetNodenameForKernel.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_HOSTNAME_MAX: Final = 63  # a DNS label
_FQDN_MAX: Final = 64  # the kernel's nodename


class HostnameTooLong(ValueError):
    """The host name is too long for the kernel; the message is the kubelet's."""


class Hostname(NamedTuple):
    """A host's name and its domain, which may be empty."""

    name: str
    domain: str = ""

    @property
    def line(self) -> str:
        """Return the names for the pod's addresses in /etc/hosts."""
        return f"{self.name}.{self.domain}\t{self.name}" if self.domain else self.name


def pod_hostname(pod: Mapping[str, Any], cluster_domain: str = "") -> Hostname:
    """Return the pod's host name (`hostnameOverride`, `hostname` or the pod's name) and its domain, from `subdomain`."""
    spec, metadata = pod.get("spec") or {}, pod["metadata"]
    if override := spec.get("hostnameOverride"):
        return Hostname(_cut(str(override)))
    name = _cut(str(spec.get("hostname") or metadata["name"]))
    if not (subdomain := spec.get("subdomain")):
        return Hostname(name)
    return Hostname(name, f"{subdomain}.{metadata['namespace']}.svc.{cluster_domain}")


def kernel_hostname(pod: Mapping[str, Any], cluster_domain: str) -> str:
    """Return the kernel's host name: the name, or with setHostnameAsFQDN the full name. Raises HostnameTooLong."""
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
