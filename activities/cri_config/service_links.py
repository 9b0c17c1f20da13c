"""The environment variables of Services in a container's namespace (pkg/kubelet/envvars/envvars.go).

Used by `environment_sources`. A standalone node has no Services.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

_MASTER: Final = ("default", "kubernetes")
"""Every container gets this one (pkg/kubelet/kubelet_pods.go masterServices)."""
_NO_ADDRESS: Final = frozenset({None, "", "None"})

_Service = Mapping[str, Any]


class ServicesUnknown(Exception):
    """Services have not been read since this process started."""


class ServiceSource(Protocol):
    """A source of Services."""

    async def services(self) -> Iterable[_Service]:
        """Return all Services; raises ServicesUnknown."""
        ...


class NoServices:
    """A node without an API server."""

    async def services(self) -> Iterable[_Service]:
        """Return none."""
        return ()


def service_variables(services: Iterable[_Service], namespace: str, *, links: bool) -> dict[str, str]:
    """Build the variables for a pod's namespace; without `links` (enableServiceLinks) only the API server's.

    A Service of the namespace takes precedence over the API server's of the same name.
    """
    chosen: dict[str, _Service] = {}
    for service in services:
        metadata = service["metadata"]
        own = links and metadata.get("namespace") == namespace  # checked first: few of a cluster's thousands match
        if not own and (metadata.get("namespace"), metadata["name"]) != _MASTER:
            continue
        spec = service.get("spec") or {}
        if spec.get("clusterIP") in _NO_ADDRESS or not spec.get("ports"):
            continue
        if own:
            chosen[metadata["name"]] = spec
        else:
            chosen.setdefault(metadata["name"], spec)
    return {key: value for name in sorted(chosen) for key, value in _of(name, chosen[name])}


def service_fields(service: _Service) -> dict[str, Any]:
    """Return the part of a Service that its variables need: a cluster has thousands, of 7 KiB each."""
    metadata, spec = service["metadata"], service.get("spec") or {}
    place = {key: metadata[key] for key in ("namespace", "name", "resourceVersion") if key in metadata}
    if spec.get("clusterIP") in _NO_ADDRESS:
        return {"metadata": place}
    ports = [
        {key: port[key] for key in ("name", "port", "protocol") if key in port} for port in spec.get("ports") or ()
    ]
    return {"metadata": place, "spec": {"clusterIP": spec["clusterIP"], "ports": ports}}


def _of(name: str, spec: _Service) -> Iterator[tuple[str, str]]:
    prefix, address = _variable(name), spec["clusterIP"]
    for index, port in enumerate(spec["ports"]):
        number, protocol = port["port"], port.get("protocol") or "TCP"
        host = f"[{address}]" if ":" in address else address
        url = f"{protocol.lower()}://{host}:{number}"
        if index == 0:
            yield f"{prefix}_SERVICE_HOST", address
            yield f"{prefix}_SERVICE_PORT", str(number)
            yield f"{prefix}_PORT", url
        if port.get("name"):
            yield f"{prefix}_SERVICE_PORT_{_variable(port['name'])}", str(number)
        link = f"{prefix}_PORT_{number}_{protocol.upper()}"
        yield link, url
        yield f"{link}_PROTO", protocol.lower()
        yield f"{link}_PORT", str(number)
        yield f"{link}_ADDR", address


def _variable(name: str) -> str:
    return name.replace("-", "_").upper()
